# Warnings of spills (DIAG_SPILLS): by an assembler, here one that says what a test wants, and by the estimate from what is live.
. "$(dirname "$0")/expect"
cat >mm.tgl <<'END'
kernel mm<BM = 128, BN = 64>(a: in bf16[M, K], b: in bf16[K, N], c: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN]);
    for k in range(0, K, 32) {
        acc += a[i * BM +: BM, k +: 32] @ b[k +: 32, j * BN +: BN];
    }
    c[i * BM +: BM, j * BN +: BN] = acc;
}
example mm { M = 256; N = 128; K = 128; a = normal(0, 1); b = normal(0, 1); }
END
mkdir bin
cat >bin/ptxas <<'END'
#!/bin/sh
[ -n "${SAYS-}" ] || exit 1
echo "ptxas info    : Function properties for mm"
echo "    24 bytes stack frame, $SAYS bytes spill stores, $SAYS bytes spill loads"
echo "ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size"
echo code >out.cubin
END
chmod +x bin/ptxas
PATH="$PWD/bin:$PATH"

# none says it: the estimate, which knows that more warps hold the tile
unset SAYS
for t in sm_80 sm_90a; do
	expect 0 "^mm.tgl:1:8: warning: 'mm' needs more registers than a thread has on $t: about [0-9]* at once, by an estimate of what is live, of 255 .W1220" \
	    build mm.tgl --target=$t --emit=ptx -D warps=1
	holds grep -q 'help: more warps (warps = 2) or a smaller tile (BM = 64) leave each thread less to hold' "$err"
	expect 0 '' build mm.tgl --target=$t --emit=ptx -D warps=4
	refuse W1220
done
expect 0 'W1220' inspect mm.tgl -D warps=1
holds grep -q '^  about [0-9]* registers at once, by an estimate of what is live, of 255: spills are likely$' "$out"
expect 0 '"registers_estimated": [1-9]' inspect mm.tgl -D warps=4 --json
expect 0 '' inspect mm.tgl -D warps=4
refuse 'W1220\|spills are likely'
# sixteen warps share a multiprocessor's registers: more do not help
expect 0 'help: a smaller tile (BM = 512) leaves each thread' build mm.tgl --target=sm_90a --emit=ptx -D warps=16 -D BM=1024 -D BN=128

# sums of products that fill the registers by themselves, of warpgroups and of warps; half of them leave room
for t in sm_80 sm_90a; do
	expect 0 "'mm' needs more registers than a thread has on $t: about [0-9]* at once" \
	    build mm.tgl --target=$t --emit=ptx -D BM=256 -D BN=256 -D warps=8
	expect 0 '' build mm.tgl --target=$t --emit=ptx -D BM=128 -D BN=256 -D warps=8
	refuse W1220
done

# of an instruction of warpgroups whose sums leave a thread no register assemblers make nothing: warps multiply
expect 0 "dot .* m16n8k16.bf16 .*: one instruction's sums take all registers that a thread has of so many$" \
    inspect mm.tgl --target=sm_90a -D BM=256 -D BN=256 -D warps=16
expect 0 "m16n8k16.bf16 .*: one instruction's sums take all registers" inspect mm.tgl --target=sm_90a -D BM=256 -D BN=208 -D warps=16
# beside a producer's warps ptxas compiles consumers for 96 registers, of which 136 columns take 94
for n in 128 136; do
	expect 0 "^  .* roles .*16 warps compute" inspect mm.tgl --target=sm_90a -D BM=256 -D BN=$n -D warps=16 -D specialize=true
	refuse W1219
done
expect 0 "specialize = true. has no effect: one instruction's sums take all registers that a thread has beside the producer's .W1219" \
    inspect mm.tgl --target=sm_90a -D BM=256 -D BN=144 -D warps=16 -D specialize=true
holds grep -q 'wgmma.n144k16.bf16' "$out"
# heads of 256 with a bias: sixteen warps would spill; in roles the results go through one buffer, for two have no room
cat >att.tgl <<'END'
kernel att<BM = 64, BN = 64, D = 256>(q: in bf16[S, D], k: in bf16[S, D], v: in bf16[S, D], bias: in bf16[H, S, S], o: out bf16[H, S, D])
    grid(pm: cdiv(S, BM), h: H)
{
    let row = q[pm * BM +: BM, :];
    var m = full([BM], -inf);
    var l = zeros([BM]);
    var acc = zeros([BM, D]);
    for j in range(0, S, BN) {
        let near = (row @ k[j +: BN, :].T) * 0.0625 + bias[h, pm * BM +: BM, j +: BN];
        let s = where((j + arange(0, BN) < S)[new, :], near, -inf);
        let next = max(m, max(s, axis = 1));
        let p = exp(s - next[:, new]);
        l = l * exp(m - next) + sum(p, axis = 1);
        acc = acc * exp(m - next)[:, new] + (p as bf16) @ v[j +: BN, :];
        m = next;
    }
    o[h, pm * BM +: BM, :] = (acc / l[:, new]) as bf16;
}
END
expect 0 'roles .*8 warps compute' inspect att.tgl --target=sm_90a -D H=16 -D S=4096
refuse W1220

# an assembler says it
export SAYS=40
expect 0 "80 bytes of stores and loads spill them to local memory .W1220" inspect mm.tgl
expect 0 'W1220' build mm.tgl --target=sm_90a --emit=cubin -o k.cubin
expect 0 '' build mm.tgl --target=sm_90a --emit=ptx
refuse W1220
expect 0 "80 bytes of stores and loads spill them to local memory .W1220" build mm.tgl --target=sm_90a --emit=ptx -D warps=1
# where only the toolkit's folder has one; one that takes too long
mkdir -p few toolkit/bin
cp bin/ptxas toolkit/bin
toolkit() {
	PATH="$PWD/few" CUDA_HOME="$PWD/toolkit" "$tegula" build mm.tgl --target=sm_90a --emit=ptx -D warps=1 >"$out" 2>"$err"
}
holds toolkit
holds grep -q '80 bytes of stores and loads spill them to local memory .W1220' "$err"
cp "$top/tests/mock/endless/ptxas" toolkit/bin
holds toolkit
holds grep -q 'by an estimate of what is live, of 255 .W1220' "$err"
refuse Killed
# half of a tile that the source computes from a row would leave out half of the row
cat >row.tgl <<'END'
kernel mm<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R]) grid(r: R) { y[r] = sum(x[r, 0 +: B]); }
example mm { R = 4; C = 1000; x = normal(0, 1); }
END
expect 0 'help: .*smaller tiles leave each thread' inspect row.tgl
refuse 'B = 512'
# of a loop that reads ahead the trips are what a thread holds
cat >ahead.tgl <<'END'
kernel mm<B = 128>(x: in f32[T, N], y: out f32[T, N]) grid(p: cdiv(N, B)) {
    var s = zeros([B]);
    for t in range(T) {
        s = 0.5 * s + x[t, p * B +: B];
        y[t, p * B +: B] = s;
    }
}
example mm { T = 64; N = 256; x = normal(0, 1); }
END
expect 0 'help: fewer trips that are read ahead (unroll = 4) leave each thread' inspect ahead.tgl -D warps=4 -D unroll=8
expect 0 'help: .*a smaller tile (B = 64) leave each thread' inspect ahead.tgl -D warps=4 -D unroll=1
# a few words are scalars that are moved out of the way of a loop
SAYS=32
expect 0 'spills 64 bytes' inspect mm.tgl -D warps=1
refuse 'W1220'
SAYS=0
expect 0 'spills 0 bytes' inspect mm.tgl -D warps=1
refuse 'W1220'
expect 0 '' build mm.tgl --target=sm_90a --emit=ptx -D warps=1
refuse 'W1220'
expect 0 '' build mm.tgl --target=sm_90a --emit=cubin -o k.cubin
holds grep -q '^code$' k.cubin
refuse W1220

# the estimate warns of no kernel of dsl_examples (tests/counts asks the same on sm_90a)
for f in "$top"/dsl_examples/*.tgl; do
	expect 0 '' build "$f" --target=sm_80 --emit=ptx
	refuse W1220
done
finish
