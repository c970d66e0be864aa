#!/bin/sh
# The simt device: results and reports of a GPU's code on this machine.
. "$(dirname "$0")/expect"
export TEGULA_CACHE=off

cat >k.tgl <<'END'
kernel far(x: *f32, y: out f32[128], by: i32) grid(p: 1) { y[0 +: 128] = load(x + (arange(0, 128) + by)); }
kernel ever(n: i32, y: out i32[128]) grid(p: 1) {
    var i = n - n;
    while (i != n) { i += 2; }
    y[0 +: 128] = full([128], i);
}
kernel sure(x: in f32[N], y: out f32[N]) grid(i: cdiv(N, 100)) {
    let v = x[i * 100 +: 100];
    assert(v < 10, "too great", i, 2.5);
    y[i * 100 +: 100] = v;
}
reference sure { y[:] = x[:]; }
example sure { N = 250; x = uniform(0, 9); }
END
expect 0 '' run k.tgl far --arg 'x=ones([129])' --arg by=1 --device=simt
expect 1 "lies outside of 'x': it would be element 100000 of 128" run k.tgl far --arg 'x=ones([128])' --arg by=100000 --device=simt
expect 0 'i32.128.' run k.tgl ever --arg n=6 --device=simt:sm_80 --iterations=100000
expect 1 'k.tgl:4:.*a loop does not end' run k.tgl ever --arg n=7 --device=simt:sm_80 --iterations=100000
holds grep -q "E1194" "$err"
expect 0 '^sure .* simt:sm_75 .* y .* good$' check k.tgl --device=simt
expect 0 '^sure .* simt:sm_90a *y .* good$' check k.tgl --device=simt --unchecked --schedule=7
# the code of several targets runs once, also with checks; kernels that wait for the grid before have other code than those that do not
expect 0 '^sure .* simt:sm_80 .* the code of sm_75$' check k.tgl --device=simt
expect 0 '^sure .* simt:sm_100a .* the code of sm_90a$' check k.tgl --device=simt
expect 0 '^sure .* simt:sm_100a *y .* good$' check k.tgl --device=simt:sm_100a
expect 0 '^sure .* simt:sm_86 .* the code of sm_80$' check k.tgl --device=simt:sm_80,simt:sm_86
# the reference of one device is kept for the next, and no other input, first value or scalar has it
cat >kept.tgl <<'END4'
kernel kept(x: in i32[N], s: i32, y: inout i32[N]) grid(i: cdiv(N, 64)) { y[i * 64 +: 64] = y[i * 64 +: 64] + x[i * 64 +: 64] * s; }
reference kept { y[:] = y[:] + x[:] * s; }
example kept "a" { N = 64; x = ones; s = 1; y = zeros; }
example kept "b" { N = 64; x = zeros; s = 1; y = zeros; }
example kept "c" { N = 64; x = ones; s = 2; y = zeros; }
example kept "d" { N = 64; x = ones; s = 1; y = ones; }
END4
expect 0 '8 good, 0 wrong, 0 failed' check kept.tgl --device=cpu,simt:sm_80
expect 1 'assertion failed in program 2 at element 0: too great 2 2.5' \
    run k.tgl sure --arg 'x=where(iota([250], 0) < 200, 1.0, 11.0)' --device=simt
# of a tile and of a fourth scalar the cpu device alone tells the values
cat >tell.tgl <<'END3'
kernel tell(x: in f32[4], y: out f32[4]) grid(i: 1) {
    let v = x[0 +: 4];
    assert(v < 3, "big", v, 1, 2.5, true, 4);
    y[0 +: 4] = v;
}
END3
expect 1 'in program 0 at element 2: big \[1, 1, 5, 1\] 1 2.5 true 4 .E1195' \
    run tell.tgl --arg 'x=where(iota([4], 0) == 2, 5.0, 1.0)' --device=cpu
expect 1 'in program 0 at element 2: big 1 2.5 true .E1195' \
    run tell.tgl --arg 'x=where(iota([4], 0) == 2, 5.0, 1.0)' --device=simt
expect 1 "E1152" run k.tgl ever --arg n=6 --device=simt:sm_99
holds grep -q "there are 'cpu', .*'simt:sm_75', .*'simt:sm_120a'$" "$err"
# a file of tile IR may name what the target has not: the lowering says so
cat >dot.tgl <<'END4'
kernel dots(a: in f16[16, 16], b: in f16[16, 16], y: out f32[16, 16]) grid(i: 1) { y[0 +: 16, 0 +: 16] = a[0 +: 16, 0 +: 16] @ b[0 +: 16, 0 +: 16]; }
reference dots { y[:, :] = a[:, :] @ b[:, :]; }
example dots { a = ones; b = ones; tune(warps = 1); }
END4
expect 0 '' build dot.tgl --target=sm_80 --emit=tir -o dot.tir
holds grep -q 'm16n8k16.f16' dot.tir
expect 0 'good' check dot.tgl --device=simt:sm_80 --ir=dot.tir
expect 1 "the matrix instruction 'm16n8k16.f16' is not possible on sm_75 .E1301" check dot.tgl --device=simt:sm_75 --ir=dot.tir
refuse E1155
expect 0 '' build dot.tgl -o early.tir
expect 1 "needs facts that the module does not claim: LAYOUTS SMEM .E1002" check dot.tgl --device=simt:sm_80 --ir=early.tir
sed 's/m16n8k16.f16/m16n8k99.f16/' dot.tir >odd.tir
expect 1 "the matrix instruction 'm16n8k99.f16' is not possible on sm_80 .E1301" check dot.tgl --device=simt:sm_80 --ir=odd.tir
refuse E1401
# PTX of the user's own has no meaning here: the else is taken, and IR that has it is refused
cat >brev.tgl <<'END5'
kernel brev(x: in u32[32], y: out u32[32]) grid(i: 1) {
    static if target == "ptx" { y[0 +: 32] = inline_ptx("brev.b32 $0, $1;", x[0 +: 32], out = u32); } else { y[0 +: 32] = x[0 +: 32]; }
}
END5
expect 0 'y: u32.32.' run brev.tgl --arg 'x=iota([32], 0)' --device=simt
expect 0 '' build brev.tgl --target=sm_80 --emit=tir -o brev.tir
expect 1 'inline_ptx is not possible on the simt device .E1301' run brev.tgl --arg 'x=iota([32], 0)' --device=simt:sm_80 --ir=brev.tir
refuse E1155
holds grep -q 'help: .* --device=cuda can run it' "$err"
expect 0 '' build brev.tgl --target=sm_80 --emit=thread -o brev.thread
expect 1 'inline_ptx is not possible on the simt device .E1301' run brev.tgl --arg 'x=iota([32], 0)' --device=simt:sm_80 --ir=brev.thread
# thread IR runs from its text, as it was printed and as it was changed by hand; not on other targets and devices
cat >half.tgl <<'END7'
kernel half<warps = 4>(x: in f32[128], y: out f32[128]) grid(i: 1) { y[0 +: 128] = x[0 +: 128] * 0.5 + sum(x[0 +: 128]); }
END7
run_half='run half.tgl --arg x=iota([128],0) --device=simt:sm_80 --out y=y.npy'
expect 0 '' build half.tgl --target=sm_80 --emit=thread -o half.thread
expect 0 '' $run_half
cp y.npy direct.npy
expect 0 '' $run_half --ir=half.thread
holds cmp y.npy direct.npy
sed 's/, 0\.5$/, 0.25/' half.thread >quarter.thread
holds test "$(cmp -s half.thread quarter.thread; echo $?)" = 1
expect 0 '' $run_half --ir=quarter.thread
holds test "$(cmp -s y.npy direct.npy; echo $?)" = 1
expect 0 '' opt half.thread -o simpler.thread
holds cmp half.thread simpler.thread
sed '/^ *barrier$/d' half.thread >open.thread
expect 1 'E140[0-9]' $run_half --ir=open.thread
expect 1 'takes other parameters .*E0922' run half.tgl --arg 'x=iota([128],0)' --device=simt:sm_75 --ir=half.thread
expect 1 'thread IR runs on the simt device .E0922' run half.tgl --arg 'x=iota([128],0)' --device=cpu --ir=half.thread
# tiles are printed in the words of the cpu device: extents that are no powers of two, long dimensions, several a line
cat >show.tgl <<'END6'
kernel show(x: in f32[3, 20], b: in i8[5], y: out f32[3, 20]) grid(p: 2) {
    let v = x[:, :];
    print("100% v", v, p, v[0, 0] > 1);
    print("odd", b[:], x[0, 0 +: 3] as f16, arange(0, 40) * 3, b[:] > 2, 0.1);
    static for i in range(2) { print("row", v[i, :] / 3); }
    y[:, :] = where(p == 0, v, v);
}
END6
for device in cpu simt:sm_75 simt:sm_90a; do
    "$tegula" run show.tgl --device=$device --arg 'x=normal(0, 1)' --arg 'b=[1, 2, 3, 4, -5]' 2>/dev/null | grep '^program' | sort >show.$device
done
holds grep -q '^program 1: odd .1, 2, 3, 4, -5. .* .0, 3, 6, ..., 111, 114, 117. .false, false, true, true, false. 0.1$' show.cpu
holds [ "$(wc -l <show.cpu)" -eq 8 ]
holds cmp show.cpu show.simt:sm_75
holds cmp show.cpu show.simt:sm_90a
cat > early.tgl <<'END'
kernel early(x: in f32[R, C], y: out f32[R]) grid(r: R) {
    if x[r, 0] < 0 { return; }
    var s = 0.0;
    for c in range(0, C, 64) { s += sum(x[r, c +: 64]); }
    y[r] = s;
}
END
# values of the schedule that change no code are said (DIAG_SCHEDULE_IDLE)
expect 0 'warning: .ctas = 2. has no effect: sm_80 has no clusters of blocks .W1219' \
    check dot.tgl --device=simt:sm_80 -D ctas=2
expect 0 'warning: .ctas = 2. has no effect: blocks of a cluster share copies of kernels that are parted.*W1219' check dot.tgl --device=simt:sm_90a -D ctas=2
expect 0 'warning: .specialize = true. has no effect: no product of warpgroups is in a loop over programs .W1219' build dot.tgl --target=sm_90a -D specialize=1 --emit=tir
expect 0 'warning: .pingpong = true. has no effect: the kernel is not parted into roles .specialize. .W1219' build dot.tgl --target=sm_90a -D pingpong=1 --emit=tir
expect 0 'warning: .pingpong = true. has no effect: the products. sums take more registers than threads of two such groups have .W1219' \
    build "$top/dsl_examples/attention.tgl" --target=sm_90a --example large -D BM=128 -D BN=128 -D warps=8 -D specialize=1 -D pingpong=1 --emit=tir
expect 0 "'split = 4' has no effect: its loop is in a branch, as all is behind an early return .W1219" build early.tgl --target=sm_90a -D R=8 -D C=512 -D split=4 --emit=tir
expect 0 "'stages = 3' has no effect: no loop reads tiles for products by asynchronous copies .W1219" build dot.tgl --target=sm_90a -D stages=3 --emit=tir
expect 0 "'group = 4' has no effect: the grid has one axis .W1219" build early.tgl --target=sm_90a -D R=8 -D C=512 -D group=4 --emit=tir
expect 0 "'persistent = false' has no effect: roles loop over programs" \
    build "$top/dsl_examples/matmul.tgl" --target=sm_90a -D M=4096 -D N=4096 -D K=4096 -D persistent=false --emit=tir
# each of several
expect 0 'warning: .specialize = true. has no effect' build dot.tgl --target=sm_80 -D ctas=2 -D specialize=1 --emit=tir
cat > sorted.tgl <<'END'
kernel sorted<B = 8192, warps = 1, share = 16>(x: in f32[R, B], y: out f32[R, B]) grid(r: R) { y[r, :] = sort(x[r, :]); }
reference sorted { y[:, :] = sort(x[:, :]); }
example sorted { R = 1; x = normal(0, 1); }
END
expect 0 'warning: .share = 16. has no effect: 16 programs need 1048576 bytes of shared memory; sm_90a has 232448 .W1219' \
	check sorted.tgl --device=simt:sm_90a
expect 0 '' check dot.tgl --device=simt:sm_90a -D ctas=1 -D specialize=0
refuse W1219
expect 0 '' check dot.tgl --device=cpu -D ctas=2
refuse W1219
# nor of a word that the first passes alone, by which results are compared, do nothing with
cat >staged.tgl <<'END4'
kernel staged<stages = 3>(a: in f16[64, K], b: in f16[K, 64], c: out f32[64, 64]) grid(i: 1) {
    var s = zeros([64, 64], f32);
    for k in range(0, K, 64) { s += a[0 +: 64, k +: 64] @ b[k +: 64, 0 +: 64]; }
    c[0 +: 64, 0 +: 64] = s;
}
reference staged { c[:, :] = a[:, :] @ b[:, :]; }
example staged { K = 256; a = integers(-3, 4); b = integers(-3, 4); }
END4
expect 0 'staged .* good' check staged.tgl --device=simt:sm_90a
refuse W1219
# nor of the kernel that computes operands before
cat >before.tgl <<'END4'
kernel cov<BM = 64, BN = 64, BK = 64>(x: in bf16[N, D], m: in f32[D], c: out f32[D, D]) grid(i: cdiv(D, BM), j: cdiv(D, BN)) {
    var s = zeros([BM, BN], f32);
    for k in range(0, N, BK) {
        let u = ((x[k +: BK, i * BM +: BM] as f32) - m[i * BM +: BM]) as bf16;
        let v = ((x[k +: BK, j * BN +: BN] as f32) - m[j * BN +: BN]) as bf16;
        s += u.T @ v;
    }
    c[i * BM +: BM, j * BN +: BN] = s;
}
END4
expect 0 'copy operand0' inspect before.tgl --target=sm_90a -D N=16384 -D D=4096
refuse W1219
# a nest of loops is compiled in a moment: work that doubled with each would not end before the tests' limit
{
	echo 'kernel nest(x: in f32[N], y: out f32[N]) grid(i: N) { var v = x[i];'
	for n in $(seq 60); do echo "for k$n in range(N) { v += 1;"; done
	for n in $(seq 60); do echo "}"; done
	echo 'y[i] = v; } reference nest { y[:] = x[:] + 60; } example nest { N = 1; x = ones; }'
} >nest.tgl
expect 0 '^nest .* simt:sm_80 .* good$' check nest.tgl --device=simt:sm_80
# nor one whose innermost loop goes through shared memory, even where each loop around it leaves something of its own
nest_shared() {
	echo 'kernel nest(x: in i32[32, 32], y: out i32[32, 32], n: i32) grid(i: 1) { var v = x[:, :];'
	for n in $(seq 22); do echo "for k$n in range(n) { $1;" | sed "s/%/k$n/"; done
	echo 'for a in range(2 * n) { for b in range(2 * n) { v = cumsum(v.T, axis = 0); } }'
	for n in $(seq 22); do echo "}"; done
	echo 'y[:, :] = v; } reference nest { var v = x[:, :] * 23; for k in range(4) { v = cumsum(v.T, axis = 0); }'
	echo 'y[:, :] = v; } example nest { n = 1; x = integers(-9, 9); }'
}
for each in 'v += x[:, :]' 'v += x[% +: 32, :]'; do
	nest_shared "$each" >nest.tgl
	expect 0 '^nest .* simt:sm_80 .* good$' check nest.tgl --device=simt:sm_80
done
expect 0 cpu devices
refuse simt
# a scattered write takes more sectors than the compiler can know: what it predicted is said beside
cat >scatter.tgl <<'END2'
kernel scatter(x: in f32[N], p: in i32[N], y: out f32[N]) grid(i: cdiv(N, 128)) {
    let q = p[i * 128 +: 128];
    y[q] = x[i * 128 +: 128];
}
reference scatter { y[:] = sum(where(p[new, :] == iota([N, N], 0), x[new, :], 0), axis = 1); }
example scatter { N = 256; x = normal(0, 1); p = iota([256], 0) * 37 % 256; }
END2
expect 0 "scatter.tgl:3:5: warning: a warp's write takes 16 sectors here; the compiler could not predict it, the indices are data .W1401" \
    race scatter.tgl --target=sm_90a
# operations are counted where warpgroups multiply, too
expect 0 "time .*, [0-9.]* GFLOP/s" run "$top/dsl_examples/matmul.tgl" --device=simt:sm_90a -D M=256 -D N=256 -D K=256
finish
