# inspect, and the facts of expect blocks: figures of code for a GPU, with no GPU.
. "$(dirname "$0")/expect"
with=$PATH without=$top/tests/mock/without:$PATH
PATH=$without                                    # few need machine code, and that takes most of the time
cp "$top/tests/cli/facts/"*.tgl "$top/tests/cli/expect_fact.tgl" "$top/dsl_examples/matmul.tgl" "$top/dsl_examples/transpose.tgl" \
	"$top/dsl_examples/softmax.tgl" .

expect 0 "read x *f32\[256\] *1 access of 16 bytes a thread, 16 of 16 sectors" inspect expect_wrong.tgl
expect 0 "sm_75: 2 warps, 0 bytes" inspect expect_wrong.tgl --target=sm_75
expect 0 "dot 128x128x64 wgmma.n128k16.bf16 .*1 warpgroup, operands in shared memory" inspect matmul.tgl --example large -D BM=128 -D BN=128 -D BK=64 -D warps=4
# what is left open is chosen by the sizes; what is given stays
expect 0 "dot 128x256x64 wgmma.n256k16.bf16 .*2 warpgroups" inspect matmul.tgl --example large
expect 0 "roles  *1 thread copies" inspect matmul.tgl --example large
refuse "not parted"
expect 0 "2 warpgroups" inspect matmul.tgl --example large -D M=5000 -D N=1000 -D K=1000
refuse "roles"
# a header that lists nothing leaves the warps and the form open
sed '/tune(/,/stages = /d' matmul.tgl >untuned.tgl
expect 0 'chosen: .*warps = [48],.* specialize = true' inspect untuned.tgl --example large
expect 0 '8 warps,' inspect untuned.tgl --example large -D M=512 -D N=512 -D K=512
expect 0 '^matmul for sm_90a: 8 warps' inspect untuned.tgl --example large -D warps=8 -D specialize=0
refuse 'roles'
expect 1 "'a' is a tensor, which has no value here" inspect untuned.tgl -D a=3
# Of a launch of two kernels both are shown, that before first.
expect 0 '^matmul_parts for sm_90a, the kernel before: ' inspect matmul.tgl --example large -D M=256 -D N=256 -D K=65536
expect 0 'dot .* wgmma' inspect matmul.tgl --example large -D M=256 -D N=256 -D K=65536
expect 0 '^matmul for sm_90a: ' inspect matmul.tgl --example large -D M=256 -D N=256 -D K=65536
expect 0 ' us are of a kernel before, which makes what this one reads$' inspect matmul.tgl --example large -D M=256 -D N=256 -D K=65536
expect 0 '"before": [{]' inspect matmul.tgl --example large -D M=256 -D N=256 -D K=65536 --json
# Two products that a loop sums up hold so many registers that a block is alone: its rings take the shared memory of two.  In
# single rounds roles are compared, but with no more sums than their registers hold.
cat >gated.tgl <<'END'
kernel gated<BM = 128, BN = 128, BK = 64>(x: in bf16[M, K], w: in bf16[N, K], v: in bf16[N, K], y: out bf16[M, N])
    grid(i: cdiv(M, BM), j: cdiv(N, BN))
{
    var g = zeros([BM, BN], f32);
    var u = zeros([BM, BN], f32);
    for k in range(0, K, BK) {
        g += x[i * BM +: BM, k +: BK] @ w[j * BN +: BN, k +: BK].T;
        u += x[i * BM +: BM, k +: BK] @ v[j * BN +: BN, k +: BK].T;
    }
    y[i * BM +: BM, j * BN +: BN] = max(g, 0) * u;
}
example gated "large" bench { M = 256; N = 8192; K = 2048; }
END
expect 0 '  buffer<4 x bf16' inspect gated.tgl --example large --explain
refuse 'refused .*pays from two programs'
expect 0 "combinations, 29 of them refused" inspect gated.tgl --example large --explain -D BM=256 -D BN=96 -D warps=16
# Tiles of products that the header gives as numbers are chosen, unless it gives a schedule too or the caller says them.
cat >sides.tgl <<'END'
kernel sides<BM = 64, BN = 64, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], c: out bf16[M, N])
    grid(i: cdiv(M, BM), j: cdiv(N, BN))
{
    var acc = zeros([BM, BN]);
    for k in range(0, K, BK) {
        acc += a[i * BM +: BM, k +: BK] @ b[k +: BK, j * BN +: BN];
    }
    c[i * BM +: BM, j * BN +: BN] = acc as bf16;
}
example sides { M = 4096; N = 4096; K = 4096; a = normal(0, 1); b = normal(0, 1); }
END
expect 0 'chosen: BM = 128, BN = 256, BK = 64, warps = 8' inspect sides.tgl
expect 0 'dot 64x64x64' inspect sides.tgl -D BM=64 -D BN=64 -D BK=64
expect 0 '^sides for sm_90a' inspect sides.tgl -D M=70 -D N=0 -D K=33
sed 's/BK = 64>/BK = 64, warps = 4>/' sides.tgl >given.tgl
expect 0 'dot 64x64x64' inspect given.tgl
# a depth between powers of two is padded, and no tensor map brings its tiles: another takes its place, unless it is given
sed 's/BK = 64>/BK = 48>/; s/K = 4096/K = 1536/' sides.tgl >depth.tgl
expect 0 'chosen: BM = 128, BN = 256, BK = 64, warps = 8' inspect depth.tgl
expect 0 'dot 64x64x48' inspect depth.tgl -D BK=48
# two products added to one sum are in its registers; of two sums four warpgroups in a role hold no 64 registers each
cat >sums.tgl <<'END'
kernel sums<T: bool = true, BM = 128, BN = 256, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], c: in bf16[M, K], d: in bf16[K, N], y: out bf16[M, N])
    grid(i: cdiv(M, BM), j: cdiv(N, BN))
{
    var p = zeros([BM, BN]);
    var q = zeros([BM, BN]);
    for k in range(0, K, BK) {
        p += a[i * BM +: BM, k +: BK] @ b[k +: BK, j * BN +: BN];
        static if T {
            p += c[i * BM +: BM, k +: BK] @ d[k +: BK, j * BN +: BN];
        } else {
            q += c[i * BM +: BM, k +: BK] @ d[k +: BK, j * BN +: BN];
        }
    }
    y[i * BM +: BM, j * BN +: BN] = p + q;
}
example sums { M = 2048; K = 2048; N = 2048; a = normal(0, 1); b = normal(0, 1); c = normal(0, 1); d = normal(0, 1); }
END
expect 0 'dot 128x256x64 .*2 warpgroups' inspect sums.tgl
expect 0 'dot 128x128x64 .*2 warpgroups' inspect sums.tgl -D T=false

# Groups of rows, of whose programs most leave early: how many stay follows from what they write, and blocks fetch those.
cp "$top/dsl_examples/moe_matmul.tgl" .
few='-D TOKENS=3000 -D A=12000 -D E=48 -D K=1536 -D N=3072'
expect 0 'chosen: BM = 128, BN = 256, .*specialize = true' inspect moe_matmul.tgl $few
expect 0 'blocks fetch programs from a counter' inspect moe_matmul.tgl $few
expect 0 'roles  *4 warps copy' inspect moe_matmul.tgl $few -D dynamic=false
refuse 'fetch programs'
expect 0 'roles  *1 thread copies' inspect matmul.tgl --example large -D ctas=1
refuse 'fetch'
expect 0 "'dynamic = true' has no effect: blocks of a cluster take neighbours together" inspect matmul.tgl --example large -D dynamic=true -D ctas=2 -D specialize=true

# Batches of small products: blocks that take turns wait for their first operands, and warps divide no loop of one iteration.
# two slots of 68 KB leave no room for a second block: a block has three
cat >low.tgl <<'END'
kernel low<BM = 128, BN = 128, BK = 128, R = 16, warps = 8, specialize = false>(x: in bf16[M, K], w: in bf16[K, N], a: in bf16[K, R], y: out bf16[M, N], z: out bf16[M, R])
    grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN]);
    var low = zeros([BM, R]);
    for k in range(0, K, BK) {
        let t = x[i * BM +: BM, k +: BK];
        acc += t @ w[k +: BK, j * BN +: BN];
        low += t @ a[k +: BK, :];
    }
    y[i * BM +: BM, j * BN +: BN] = acc;
    if j == 0 { z[i * BM +: BM, :] = low; }
}
END
expect 0 'buffer<3 x bf16.128, 128.>' inspect low.tgl -D M=4096 -D N=4096 -D K=4096
cp "$top/dsl_examples/batched_matmul.tgl" .
expect 0 'chosen: .*specialize = true' inspect batched_matmul.tgl -D B=16 -D M=512 -D N=2048 -D K=128
expect 0 'chosen: BM = 64, BN = 64, BK = 64' inspect batched_matmul.tgl -D B=512 -D M=64 -D N=64 -D K=64

# heads of no elements take no time
expect 0 '^    1.00  0 us: ' inspect "$top/dsl_examples/attention.tgl" --explain -D D=0
refuse 'nan'
sed 's/BM = 64, BN = 64/BM = 128, BN = 128/; /tune(/d' "$top/dsl_examples/attention.tgl" >chain.tgl
expect 0 'chosen: BM = 128, BN = 128, warps = 8, stages = 2, specialize = true' inspect chain.tgl --example large
# rows of chained products are open, too: a causal loop's end grows with them
sed '/tune(/d' "$top/dsl_examples/attention_causal.tgl" >rows.tgl
expect 0 'chosen: BM = 128, BN = 128, warps = 8, stages = 2, specialize = true' inspect rows.tgl --example large
expect 0 "dot 64x128x64 wgmma" inspect matmul.tgl --example large -D M=1024 -D N=1024 -D K=1024
expect 0 "dot 128x64x[0-9]* wgmma" inspect matmul.tgl --example large -D BN=64 -D BM=128
expect 0 "dot 64x256x32 wgmma" inspect matmul.tgl --example large -D BM=64 -D BN=256 -D BK=32 -D warps=4 -D stages=3
expect 0 'roles  *1 thread copies .40 registers., 8 warps compute .232.' \
    inspect matmul.tgl --example large -D BM=128 -D BN=128 -D BK=64 -D warps=8 -D specialize=1
# the ring of a parted kernel is there beside the buffers of its epilogue
expect 0 'buffer<4 x bf16.64, 256.> of b; 131072 bytes' inspect matmul.tgl --example large -D stages=4 -D BN=256 -D warps=8 -D BM=128 -D BK=64 \
    -D specialize=1
expect 0 'copy b .*, shared out among 2 blocks and sent to all' inspect matmul.tgl --example large -D stages=4 -D BN=256 -D warps=8 -D BM=128 -D BK=64 \
    -D specialize=1 -D ctas=2
holds grep -q 'clusters of 2 blocks' "$out"
holds grep -q 'buffer<1 x bf16.128, 64.>' "$out"
expect 0 'no clusters: blocks of a cluster share copies of kernels that are parted' \
    inspect matmul.tgl --example large -D BM=128 -D BN=128 -D BK=64 -D warps=4 -D specialize=0 -D ctas=2
expect 0 'no clusters: chips place at most 8 blocks in a cluster' inspect matmul.tgl --example large -D BM=128 -D BN=128 -D BK=64 \
    -D warps=8 -D specialize=1 -D ctas=16
expect 0 'not parted into roles: the target has no bulk copies that an mbarrier counts' \
    inspect matmul.tgl --example large --target=sm_80 -D specialize=1
cp "$top/dsl_examples/attention.tgl" "$top/dsl_examples/attention_backward.tgl" .
expect 0 'not parted into roles: one warpgroup has all rows' inspect attention.tgl --example large -D BM=64 -D BN=64 -D warps=4
expect 0 'products of a trip wait for each other: those at the chain' inspect attention_backward.tgl attention_gradients \
    --example large
expect 0 "get *bf16\[64, 128\] *of b, ldmatrix.trans" inspect matmul.tgl --example large --target=sm_86
expect 0 "convert .*through shared memory; into shared memory" inspect transpose.tgl --example large
expect 0 "4 blocks of a multiprocessor asked for" inspect held.tgl norm -D warps=8
expect 0 "8 blocks of a multiprocessor asked for" inspect held.tgl norm -D warps=4 -D BLOCK=4096
expect 0 '"blocks_asked": 4' inspect held.tgl norm --json -D warps=8
expect 0 "minnctapersm 4" build held.tgl norm --target=sm_90a --emit=ptx -D warps=8
for k in pair share ragged columns waves; do
	expect 0 "$k for sm_90a: 8 warps" inspect held.tgl $k -D warps=8
	refuse '[4-8] blocks of a multiprocessor asked for'     # which leave 64 registers; at most as many as what is live
done
cat >lanczos.tgl <<'END'
kernel lanczos<B = 256>(x: in u8[H, W], y: out u8[H, V], r: f32) grid(p: cdiv(V, B), h: H) {
    let at = ((p * B + arange(0, B)) as f32 + 0.5) * r - 0.5;
    let base = floor(at) as i32;
    var s = zeros([B], f32);
    static for k in range(-2, 4) {
        let d = (at - ((base + k) as f32)) * pi;
        s += (abs(d) < 1e-4 ? 1.0 : 3 * sin(d) * sin(d / 3) / (d * d)) * (x[h, clamp(base + k, 0, W - 1)] as f32);
    }
    y[h, p * B +: B] = clamp(floor(s + 0.5), 0, 255) as u8;
}
END
expect 0 "reqntid" build lanczos.tgl --target=sm_90a --emit=ptx -D H=9 -D W=384 -D V=576 -D r=0.6 -D warps=4
refuse "minnctapersm"                           # sines branch: their arms run beside each other, and would spill
expect 0 '"bank_conflicts": 0' inspect expect_wrong.tgl --json

# What several products by multiplications take is put once.
cat >long.tgl <<'END'
kernel twice(x: in f32[R, 32, 32], y: out f32[R, 32, 32]) grid(r: R) {
    let w = cos((arange(0, 32)[:, new] * arange(0, 32)) as f32);
    let t = reshape(x[r +: 1, :, :], [32, 32]);
    y[r +: 1, :, :] = reshape(dot(w, dot(t, w)) - dot(t.T, dot(w, t)), [1, 32, 32]);
}
example twice { R = 8192; x = normal(0, 1); }
END
expect 0 '3:13 .*buffer<1 x f32.32, 32.>' inspect long.tgl

# The bill, and what was chosen for it.
cat >blocks.tgl <<'END'
kernel twice<B = 64>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = 2 * x[p * B +: B]; }
example twice { N = 67108864; x = normal(0, 1); }
END
expect 0 "estimated [0-9.]* us: device memory [0-9.]*, then " inspect blocks.tgl
# Bytes are of whole sectors where strides leave gaps; elements displaced by data lie near their own places; trips are the
# mean of programs all over the grid, of which the middle one here has a single one, and of the trips of a loop around.
cat >spread.tgl <<'END'
kernel half<B = 1024>(x: in strided f32[N], y: out f32[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = x[p * B +: B]; }
example half { N = 33554432; x = normal(0, 1); x.strides = [2]; }
kernel flow<B = 256>(q: in f32[H, W], u: in f32[H, W], v: in f32[H, W], y: out f32[H, W]) grid(i: cdiv(W, B), j: H) {
    y[j, i * B +: B] = q[j as i32 + floor(v[j, i * B +: B]) as i32, (i * B + arange(0, B)) + floor(u[j, i * B +: B]) as i32];
}
example flow { H = 4096; W = 4096; q = normal(0, 1); u = normal(0, 4); v = normal(0, 4); }
kernel table<B = 256>(q: in f32[N], u: in i32[N], y: out f32[N]) grid(i: cdiv(N, B)) { y[i * B +: B] = q[u[i * B +: B]]; }
example table { N = 16777216; q = normal(0, 1); u = integers(0, 16777216); }
kernel chunk<B = 128>(x: in f32[N, B], y: out f32[N, B]) grid(p: N) {
    var s = zeros([B], f32);
    for t in range(p / 64 * 64, p + 1) { s += exp(x[t, :]); }
    y[p, :] = s;
}
example chunk { N = 65536; x = normal(0, 1); }
kernel triangle<B = 128>(x: in f32[T, C], y: out f32[C]) grid(p: cdiv(C, B)) {
    var best = full([B], -inf, f32);
    for t in range(T) {
        var s = zeros([B], f32);
        for u in range(t + 1) { s = s * 0.5 + x[u, p * B +: B]; }
        best = max(best, s);
    }
    y[p * B +: B] = best;
}
example triangle { T = 256; C = 65536; x = normal(0, 1); }
END
expect 0 "estimated 9[0-9.]* us: device memory 92" inspect spread.tgl half
expect 0 "estimated [678][0-9.]* us: device memory 6[0-9.]*, " inspect spread.tgl flow
expect 0 "estimated 2[0-9]* us: device memory 2" inspect spread.tgl table
expect 0 "estimated 1[0-9]* us: instructions 1" inspect spread.tgl chunk
expect 0 "estimated .* us: .*L2 cache 834" inspect spread.tgl triangle -D warps=4 -D unroll=8 -D split=1
expect 0 "chosen: B = [0-9]*; the default would take .* us: starting blocks" inspect blocks.tgl
expect 0 "chosen: batch = 4; the default would take .* us: starting blocks" inspect blocks.tgl -D B=64
expect 0 "estimated .* us: starting blocks .*, then " inspect blocks.tgl -D persistent=false -D B=64 -D share=1
refuse "chosen"
expect 0 "chosen: share = [48]; the default would take .* us: starting blocks" inspect blocks.tgl -D persistent=false -D B=64

# rows of a transposed view are of several programs' tile, in parts, whose accesses are wide; a loop's trips are, too, by
# fewer elements of each, and so are tiles that only cut the grid
cat >turned.tgl <<'END'
kernel soft<B = pow2ceil(C)>(x: in strided bf16[R, C], y: out strided bf16[R, C]) grid(r: R) {
    let v = (x[r, 0 +: B] else -inf) as f32;
    let e = exp(v - max(v));
    y[r, 0 +: B] = e / sum(e);
}
example soft { R = 8192; C = 4096; x.strides = [1, R]; y.strides = [1, R]; x = normal; }
kernel greatest<B = 2048>(x: in strided f32[R, C], at: out i32[R]) grid(r: R) tune(B = {256, 512, 1024, 2048}) {
    var best = -inf;
    var place = 0;
    for c in range(0, C, B) {
        let v = x[r, c +: B] else -inf;
        let m = max(v);
        if m > best { best = m; place = (c + argmax(v)) as i32; }
    }
    at[r] = place;
}
example greatest { R = 4096; C = 8192; x.strides = [1, R]; x = normal; }
kernel twice<BN = 64, BM = 64>(x: in strided bf16[L, M, N], y: out strided bf16[L, M, N]) grid(n: cdiv(N, BN), m: cdiv(M, BM), l: L) {
    y[l, m * BM +: BM, n * BN +: BN] = 2 * x[l, m * BM +: BM, n * BN +: BN];
}
example twice { L = 64; M = 512; N = 1024; x.strides = [1, L * N, L]; y.strides = [1, L * N, L]; x = normal; }
END
expect 0 "chosen: .*batch = 32, strip = 256" inspect turned.tgl soft
expect 0 "read x .* of 16 bytes a thread, 16 of 16 sectors" inspect turned.tgl soft
expect 0 "chosen: B = [0-9]*, .*batch = 16" inspect turned.tgl greatest
expect 0 "chosen: BN = [0-9]*, BM = [0-9]*, .*batch = [0-9]*" inspect turned.tgl twice

# records of three of rows of any width stay in threads, and histograms have larger tiles where those behind the end do not count
expect 0 "extract  *u8.*of each thread's registers" inspect "$top/tests/semantics/interleaved.tgl" gray --example "odd rows"
refuse "the part alone through shared memory"
expect 0 'chosen: B = [0-9]*, warps = [0-9]*; the default would take .*: atomics' inspect "$top/tests/choose/counts.tgl" counts_turned --example large

# --explain: what was compared, what bounds each, and what was refused, with no GPU
lines() { sed -n 's/^ *[0-9.]*  \([0-9.]* us: .*\)/\1/p' "$out"; }
expect 0 'compared: [0-9]* combinations, [0-9]* of them refused' inspect blocks.tgl --explain -D B=64
holds test "$(lines | grep -c '(chosen)')" = 1
holds sh -c "sed -n '/compared:/,\$p' '$out' | sed -n 2p | grep -q '^    1.00  .*: .*; .*batch = 4\(, ranked as [0-9.]* us\)*  (chosen)'"
holds grep -q "us: starting blocks .*; the header's own" "$out"
expect 0 'chosen' inspect blocks.tgl -D B=64
refuse 'compared'
# the chosen one's time is what the kernel's is
expect 0 'compared' inspect matmul.tgl --example large --explain -D ctas=1
holds test "$(sed -n 's/^  estimated \([0-9.]* us\).*/\1/p' "$out")" = "$(sed -n 's/^ *[0-9.]*  \([0-9.]* us\): .*(chosen)/\1/p' "$out")"
holds grep -q '^    refused [0-9]*: it needs more shared memory than a block has, as BM = ' "$out"
holds grep -q '^    refused [0-9]*: the header refuses it' "$out"
expect 0 "chosen: .*ctas = 2" inspect "$top/dsl_examples/attention.tgl" --example large --explain
expect 0 '(chosen)' inspect matmul.tgl --example large --explain -D M=2048 -D N=2048 -D K=2048
# least first, by what each is ranked as where that is not its estimate; those refused last
awk '/^    [0-9][0-9.]*  [0-9.]+ us/ { print match($0, /ranked as [0-9.]+/) ? substr($0, RSTART + 10, RLENGTH - 10) : $2 }' "$out" >ranked
holds [ "$(wc -l <ranked)" -ge 3 ]
holds sort -n -c ranked
expect 0 'no other warps were compared: device memory bounds' inspect transpose.tgl --example large --explain
expect 0 'nothing was compared: the target.s rates are not known' inspect blocks.tgl --explain --target=sm_86
expect 0 '"refused": "it needs more registers than a thread has"' inspect matmul.tgl --example large --explain --json
holds grep -q '"not_compared": null' "$out"
holds test "$(grep -c '"chosen": true' "$out")" = 1
# what is chosen beside the header's values, which stay
cat >few.tgl <<'END'
kernel few<BM = 16, BN = 64, BK = 128>(a: in i8[M, K], w: in i8[N, K], y: out i32[M, N]) grid(n: cdiv(N, BN), m: cdiv(M, BM)) {
    var acc = zeros([BM, BN], i32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ w[n * BN +: BN, k +: BK].T; }
    y[m * BM +: BM, n * BN +: BN] = acc;
}
example few { M = 12; N = 8192; K = 8192; a = integers(-9, 9); w = integers(-9, 9); }
END
expect 0 '  (chosen)$' inspect few.tgl --explain

# ... whatever it keeps of the header's; shares are of the times that stand beside them
cat >alike.tgl <<'END'
kernel alike<BM = 16, BN = 64, BK = 128>(x: in f16[M, K], w: in u8[K, N / 2], y: out f16[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN], f32);
    let shifts = arange(0, 2) * 4;
    for k in range(0, K, BK) {
        let words = w[k +: BK, j * (BN / 2) +: BN / 2] as i32;
        acc += x[i * BM +: BM, k +: BK] @ (reshape((words[:, :, new] >> shifts[new, new, :]) & 15, [BK, BN]) as f16);
    }
    y[i * BM +: BM, j * BN +: BN] = acc as f16;
}
example alike { M = 16; N = 8192; K = 8192; x = normal(0, 1); w = zeros; }
END
expect 0 '  (chosen)$' inspect alike.tgl --explain
holds python3 - "$out" <<'PY'
import re, sys
rows = re.findall(r"^    ([0-9.]+)  ([0-9.]+) us: .*$", open(sys.argv[1]).read(), re.M)
assert len(rows) > 1 and all(abs(float(us) / float(rows[0][1]) / float(share) - 1) < .02 for share, us in rows), rows
PY

# a loop that data bounds counts as far as its tensor goes, also where its trips are joined or blocks share it
cat >bounded.tgl <<'END'
kernel bounded(k: in f16[B, L, 64], length: in i32[B], y: out f32[B, 64]) grid(b: B) {
    var acc = zeros([64]);
    for t in range(0, length[b], 64) { acc = max(acc, max(k[b, t +: 64, :] as f32, axis = 0)); } merge (part) { acc = max(acc, part.acc); }
    y[b, :] = acc;
}
example bounded { B = 4; L = 65536; k = normal(0, 1); length = L; }
END
for form in 'unroll=1 -D split=1' 'unroll=2 -D split=1' 'unroll=1 -D split=16' 'unroll=2 -D split=16'; do
	trips=1024
	case $form in *16) trips=64 ;; esac
	expect 0 "line 3's loop runs as often as data says: the model counts $trips trips" inspect bounded.tgl -D $form
done

# Device memory of lines is what distinct bytes of their tensors take; few blocks hold few warps.
cat >bytes.tgl <<'END'
kernel grown<B = 64>(x: in f32[C, N], y: out f32[C, 4 * N]) grid(p: cdiv(4 * N, B), c: C) {
    let i = (p * B + arange(0, B)) / 4;
    let a = x[c, i];
    let b = x[c, min(i + 1, N - 1)];
    y[c, p * B +: B] = a + b;
}
kernel trips<B = 64>(x: in f32[T, C], y: out f32[T, C]) grid(p: cdiv(C, B)) {
    var s = zeros([B], f32);
    for t in range(0, T) {
        s = 0.5 * s + x[t, p * B +: B];
        y[t, p * B +: B] = s;
    }
}
kernel three<B = 1024>(a: in f32[N], b: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) {
    let v = a[p * B +: B];
    let w = b[p * B +: B];
    y[p * B +: B] = v + w;
}
example three { N = 67108864; a = normal(0, 1); b = normal(0, 1); }
example grown { C = 64; N = 262144; x = normal(0, 1); }
example trips { T = 1024; C = 32768; x = normal(0, 1); }
END
expect 0 '"not_attributed"' inspect bytes.tgl grown --json
holds python3 - "$out" <<'PY'
import json, sys
k, = json.load(open(sys.argv[1]))
us = {s["line"]: dict(s["parts"])["device memory"] for s in k["spent"]}
assert us[3] > 0 and us[4] > 0 and abs(us[5] / (us[3] + us[4]) - 4) < .04, us
PY
PATH=$with
expect 0 '8 of 64 warps on a multiprocessor, held by the grid: 512 blocks for 132 multiprocessors$' inspect bytes.tgl trips -D warps=2 -D unroll=8
PATH=$without
expect 0 'device memory and half of the waiting follow one another in a block.s trips' inspect bytes.tgl trips -D warps=2 -D unroll=16
expect 0 '^  the largest share, 33 %, is line [0-9]*, which is bound by: device memory$' inspect bytes.tgl three

# A row that registers do not hold is read in parts.
cat >rows.tgl <<'END'
kernel soft<B = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(r: R) {
    let v = x[r, 0 +: B] else -inf;
    let e = exp(v - max(v));
    y[r, 0 +: B] = e / sum(e);
}
example soft { R = 1024; C = 65536; x = normal(0, 1); }
END
expect 0 "chosen: warps = 32, strip = 8192, unroll = 4; the default would take " inspect rows.tgl
expect 0 "read x *f32\[8192\]" inspect rows.tgl
expect 0 "read x *f32\[4096\]" inspect rows.tgl -D C=4096 -D R=32768
refuse "chosen"
expect 0 "estimated 1[34].. us: .*products 1[12]" inspect matmul.tgl --example large
# a binary search begins with the same key for all lanes, and goes on with others; what steps by itself keeps its distance
cat >search.tgl <<'END'
kernel search(keys: in f32[M], q: in f32[N], at: out i32[N]) grid(b: cdiv(N, 256)) {
    let v = q[b * 256 +: 256];
    var lo = zeros([256], i32);
    var hi = full([256], M as i32);
    var own = arange(0, 256);
    for step in range(20) {
        let mid = (lo + hi) / 2;
        let go = keys[mid] <= v + keys[own];
        lo = where(go, mid, lo);
        hi = where(go, hi, mid);
        own += 256;
    }
    at[b * 256 +: 256] = lo;
}
example search { M = 1000000; N = 100000; keys = uniform(0, 1); q = uniform(0, 1); }
END
expect 0 "8:18 .*sectors unknown: its indices are data" inspect search.tgl
expect 0 "8:35 .* access[es]* of 4 bytes a thread, 4 of 4 sectors" inspect search.tgl
# f32 operands that are split for three products are held twice: twice the rows would spill, as steps of 32 do, and a larger
# square of products by warps, of one size for both sides, pays
cat >split3.tgl <<'END'
kernel split3<BM = 64, BK = 32>(a: in f32[M, K], b: in f32[K, 80], c: out f32[M, 80]) grid(i: cdiv(M, BM)) {
    var acc = zeros([BM, 80]);
    for k in range(0, K, BK) { acc = dot(a[i * BM +: BM, k +: BK], b[k +: BK, 0 +: 80], acc, precision = tf32x3); }
    c[i * BM +: BM, 0 +: 80] = acc;
}
example split3 { M = 100000; K = 201; a = normal(0, 1); b = normal(0, 1); }
kernel square<B = 32, BK = 64>(x: in f32[K, C], y: in f32[K, C], g: out f32[C, C]) grid(i: cdiv(C, B), j: cdiv(C, B)) {
    var acc = zeros([B, B], f32);
    for r in range(0, K, BK) { acc += dot(x[r +: BK, i * B +: B].T, y[r +: BK, j * B +: B], precision = tf32x3); }
    g[i * B +: B, j * B +: B] = acc;
}
example square { K = 8192; C = 1024; x = uniform(0, 1); y = uniform(0, 1); }
END
expect 0 "dot 64x128x16 m16n8k8.tf32" inspect split3.tgl split3
expect 0 "chosen: BK = 32, B = 64;" inspect split3.tgl square
# products of a warp take fp8 on sm_89; on sm_90a ptxas converts the operands
cat >f8.tgl <<'END'
kernel f8(a: in f8e4m3[M, K], b: in f8e4m3[K, N], c: out f32[M, N]) grid(i: cdiv(M, 32), j: cdiv(N, 32)) tune(warps = {4}) {
    var acc = zeros([32, 32]);
    for k in range(0, K, 64) { acc += a[i * 32 +: 32, k +: 64] @ b[k +: 64, j * 32 +: 32]; }
    c[i * 32 +: 32, j * 32 +: 32] = acc;
}
example f8 { M = 2048; N = 2048; K = 2048; a = normal(0, 1); b = normal(0, 1); }
END
expect 0 "estimated .*special functions" inspect f8.tgl
expect 0 "estimated" inspect f8.tgl --target=sm_89
refuse "special functions"
expect 0 "chosen: BM = 128, BN = 256, .*specialize = true; the default would take" inspect matmul.tgl --example large
expect 0 '"chosen": "  chosen: B = ' inspect blocks.tgl --json
expect 0 "twice for sm_86" inspect blocks.tgl --target=sm_86
refuse "estimated"

# Shared memory with the lines in which it is needed.
cat >two.tgl <<'END'
kernel twice<B = 64>(a: in f16[M, K], b: in f16[K, N], c: in f16[L, N], y: out f32[M, N]) grid(i: cdiv(M, B), j: cdiv(N, B)) {
    var s = zeros([B, B], f32);
    for k in range(0, K, 64) {
        s += a[i * B +: B, k +: 64] @ b[k +: 64, j * B +: B];
    }
    var t = zeros([B, B], f32);
    let p = (s * 0.5) as f16;
    for k in range(0, L, 64) {
        t += p @ c[k +: 64, j * B +: B];
    }
    y[i * B +: B, j * B +: B] = t;
}
example twice { M = 256; K = 512; N = 256; L = 512; a = normal(0, 1); b = normal(0, 1); c = normal(0, 1); }
END
expect 0 '^  9:18 .* bytes at 65536 of shared memory, needed in lines 1 to 9' inspect two.tgl
holds grep -q '^  4:14  *buffer .* bytes at 0 of shared memory, needed in lines 1 to 4' "$out"
refuse ' ; '
expect 0 '"needed_lines": ' inspect two.tgl --json
echo 'expect twice { mma; wgmma; split == 1; }' >>two.tgl
expect 0 'wgmma *good' check two.tgl --device simt:sm_90a
sed -i 's/B = 64/B = 32/; s/L, 64/L, 32/; s/c\[k +: 64/c[k +: 32/' two.tgl
expect 1 ' wgmma *WRONG' check two.tgl --device simt:sm_90a
expect 1 ' mma *good' check two.tgl --device simt:sm_90a
# sectors by real strides; by a pointer too; not where indices are data
expect 0 '^  2:91 *read x .* 4 accesses of 4 bytes a thread, 32 of 4 sectors (neighbouring lanes are 2048 bytes apart)$' inspect sectors.tgl col
expect 0 'read x .* 12 of 4 sectors' inspect sectors.tgl narrow
expect 0 'read x .* 32 of 4 sectors' inspect sectors.tgl narrow -D M=8
expect 0 'load x .* 16 of 4 sectors' inspect sectors.tgl every
expect 0 'load x .* 8 of 4 sectors' inspect sectors.tgl every -D K=2
expect 0 'read x .* a thread, sectors unknown: its indices are data' inspect sectors.tgl gath
expect 0 '"sectors": null' inspect sectors.tgl gath --json
expect 0 'read x .* 16 of 16 sectors' inspect sectors.tgl rows
expect 1 '^gath .* sectors(x) == 1 *WRONG: it is not known, an access to .x. has indices that are data$' check sectors.tgl
expect 1 '^10 good, 1 wrong, 0 failed' check sectors.tgl
expect 0 '^15 good, 0 wrong, 0 failed' check addresses.tgl
expect 0 'read x .* 32 of 4 sectors (neighbouring lanes are 64 bytes apart)' inspect addresses.tgl pitch
expect 0 'read x .* 12 of 4 sectors (neighbouring lanes are 12 bytes apart)' inspect addresses.tgl pitch -D by=3
expect 0 'read x .* sectors unknown: its indices are data' inspect addresses.tgl flat -D W=9
# the worst access, and the mean where others take fewer
cat >odd.tgl <<'END'
kernel odd<B = 128>(x: in f32[R, C], y: out f32[R, B]) grid(r: R) { y[r, 0 +: B] = x[r, 0 +: B]; }
example odd { R = 64; C = 129; x = normal(0, 1); }
END
expect 0 'read x .* 5 of 4 sectors at worst, 1[.0-9]* times the fewest in the mean (a warp begins' inspect odd.tgl
refuse 'write y .* at worst'
expect 0 '"mean_sectors_ratio": 1' inspect odd.tgl --json
expect 0 'read x .* 5 of 4 sectors (a warp begins where data says, at worst 28 bytes into a sector)' inspect addresses.tgl based
# a block of 16 neighbours begins at every 16th program
cat >scaled.tgl <<'END'
kernel scaled<B = 64, warps = 1, batch = 16>(x: in u8[R, C], s: in f16[R, cdiv(C, 64)], y: out f16[R, C]) grid(g: cdiv(C, B), r: R) {
    y[r, g * B +: B] = (x[r, g * B +: B] as f16) * s[r, g];
}
example scaled { R = 512; C = 8192; x = integers(0, 200); s = normal(0, 1); }
END
expect 0 'read s .* 1 access of 2 bytes a thread, 1 of 1 sectors;' inspect scaled.tgl
cat >left.tgl <<'END'
kernel left<B = 128>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = x[p * B - 1 +: B]; }
example left { N = 4096; x = normal(0, 1); }
END
expect 0 'read x .* sectors.*(a warp begins 28 bytes into a sector)' inspect left.tgl
# blocks of scales and numbers; rows between places that data says count in whole trips, unrolled too
cat >blocks.tgl <<'END'
kernel scaled(w: in u8[N, K, 34], y: out f32[N]) grid(n: cdiv(N, 8)) {
    let s = w[n * 8 +: 8, 0 +: 16, 0 +: 2] as i32;
    let q = w[n * 8 +: 8, 0 +: 16, 2 +: 32] as i32;
    y[n * 8 +: 8] = sum(sum(q, axis = 2) * (s[:, :, 0] + 256 * s[:, :, 1]), axis = 1) as f32;
}
kernel rows<B = 128>(ptr: in i32[R1], col: in i32[Z], x: in f32[C], y: out f32[R]) grid(r: R) where R1 == R + 1 {
    let end = ptr[r + 1];
    var acc = zeros([B]);
    for i in range(ptr[r], end, B) {
        let k = i + arange(0, B);
        acc += x[where(k < end, col[k], -1)];
    }
    y[r] = sum(acc);
}
example scaled { N = 4096; K = 64; w = integers(0, 9); }
// tiles of rows, whose places go on from data; copies that stages bring ahead
kernel many<B = 16, E = 32>(ptr: in i32[R1], col: in i32[Z], x: in f32[C], y: out f32[R]) grid(b: cdiv(R, B)) where R1 == R + 1 {
    let r = b * B + arange(0, B);
    let first = ptr[r];
    let end = ptr[r + 1];
    let longest = max(end - first);
    var acc = zeros([B]);
    for i in range(0, longest, E) {
        let k = first[:, new] + i + arange(0, E);
        acc += sum(x[where(k < end[:, new], col[k], -1)], axis = 1);
    }
    y[b * B +: B] = acc;
}
kernel cached<BN = 64>(q: in bf16[B, 16, 128], k: in i8[B, L, 128], length: in i32[B], y: out f32[B, 16]) grid(b: B) {
    let qt = q[b, :, :];
    var m = full([16], -inf);
    for j in range(0, length[b], BN) { m = max(m, max(qt @ (k[b, j +: BN, :] as bf16).T, axis = 1)); } merge (part) { m = max(m, part.m); }
    y[b, :] = m;
}
kernel counted<BN = 64>(k: in i8[B, L, 128], length: in i32[B], y: out i32[B, 128]) grid(b: B) {
    let n = length[b];
    var s = zeros([128], i32);
    for j in range(cdiv(n, BN)) { s += sum(k[b, j * BN +: BN, :] as i32, axis = 0); }
    y[b, :] = s;
}
example counted { B = 64; L = 8192; k = integers(-9, 9); length = L; }
example many { R = 1048576; R1 = 1048577; C = 1048576; Z = 33554432; ptr = arange(0, 1048577) * 32; col = integers(0, 1048576); x = normal; }
example cached { B = 64; L = 8192; q = normal; k = integers(-9, 9); length = L; }
example rows { R = 1048576; R1 = 1048577; C = 1048576; Z = 33554432; ptr = arange(0, 1048577) * 32; col = integers(0, 1048576); x = normal; }
END
expect 0 '^  2:13 .* 2 of 1 sectors (16 lanes read the same, the next 34 bytes from it)$' inspect blocks.tgl scaled
expect 0 '^  3:13 .*; no wider, since rows are 34 bytes apart, of which it begins 2 bytes into each)$' inspect blocks.tgl scaled
expect 0 "^  line 9's loop runs as often as data says: the model counts 1 trip of a program$" inspect blocks.tgl rows
expect 0 "^  line 9's loop runs as often as data says: the model counts 1 trip of a program$" inspect blocks.tgl rows -D unroll=2
expect 0 '^  estimated .* us: starting blocks ' inspect blocks.tgl rows -D share=1
expect 0 '^  chosen: .*share = [48]; the default would take ' inspect blocks.tgl rows
expect 0 "^  line 23's loop runs as often as data says: the model counts 4 trips of a program$" inspect blocks.tgl many -D E=8
expect 0 "loop runs as often as data says: the model counts 32 trips of a program$" inspect blocks.tgl cached -D BN=32 -D split=1 -D stages=3
expect 0 "loop runs as often as data says: the model counts 256 trips of a program$" inspect blocks.tgl counted -D BN=32 -D split=1
# ... and by the strides that the example or the command line gives: without them the code is that for adjacent rows
expect 0 'read x .* 1 access of 16 bytes a thread, 16 of 16 sectors$' inspect addresses.tgl free
expect 0 'read x .* 32 of 4 sectors (neighbouring lanes are 256 bytes apart; no wider, since no dimension of the tile has adjacent elements)' inspect sectors.tgl turned
expect 0 'read x .* 16 of 16 sectors$' inspect sectors.tgl turned -D 'x.strides=[1024, 1]'
expect 0 'read x .* 5 of 4 sectors .* no wider, since rows are 4100 bytes apart)' inspect sectors.tgl turned -D 'x.strides=[1025, 1]'
expect 0 'read x .* 8 of 4 sectors (neighbouring lanes are 8 bytes apart' inspect sectors.tgl turned -D 'x.strides=[2 * N, 2]'
expect 0 'read x .* 16 of 16 sectors$' inspect sectors.tgl turned -D 'x.strides=[N, 1]'
expect 0 '"x.strides",' report sectors.tgl turned --json
expect 0 'x.strides = \[1, 64\]' run sectors.tgl turned --device=simt:sm_90a
expect 1 "kernel 'turned' has no 'z'" inspect sectors.tgl turned -D 'z.strides=[N, 1]'
expect 1 "'y' takes no strides: it is not declared strided" run sectors.tgl turned -D 'y.strides=[N, 1]'
expect 1 "<x.strides>:1:4: error: the stride of dimension 1 of 'x' is -1; strides are not negative" inspect sectors.tgl turned -D 'x.strides=[1,-1]'
expect 1 'takes a number' pack sectors.tgl -o packed -D 'x.strides=[1, 1]'
# elements at random of a table that the L2 cache does not hold: 68 us on an H200, 32 of one that it holds
cat >random.tgl <<'END'
kernel one<B = 256>(x: in f32[V], ids: in i32[N], y: out f32[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = x[ids[p * B +: B]]; }
example one bench { V = 16777216; N = 4194304; x = ones; ids = integers(0, V); }
END
for v in 262144:25:40 16777216:50:80; do
	expect 0 '' inspect random.tgl --json -D "V=${v%%:*}"
	holds python3 -c 'import json, sys; us = json.load(open(sys.argv[1]))[0]["estimated_us"]; v, a, b = sys.argv[2].split(":"); assert float(a) < us < float(b), us' "$out" "$v"
done
# ... unless a run counts them: each its own sector, two lanes an element, rising strides all over the grid, atomics
cat >counted.tgl <<'END'
kernel pick<B = 128>(x: in f32[N], ids: in i32[M], y: out f32[M]) grid(p: cdiv(M, B)) {
    y[p * B +: B] = x[ids[p * B +: B]];
}
example pick { N = 65536; M = 512; x = normal(0, 1); ids = iota([512], 0) * 8; }
example pick "pairs" { N = 65536; M = 512; x = normal(0, 1); ids = iota([512], 0) / 2; }
example pick "rising" { N = 65536; M = 16384; x = normal(0, 1); ids = iota([16384], 0) * (iota([16384], 0) / 2048 + 1) % 65536; }
example pick "part" { N = 65536; M = 12; x = normal(0, 1); ids = iota([12], 0); }
example pick "large" { N = 65536; M = 16777216; x = normal(0, 1); ids = iota([16777216], 0) % 8; }
kernel tally<B = 128, warps = 4>(ids: in i32[M], y: out i32[N] = 0) grid(p: cdiv(M, B)) {
    atomic_add(y[ids[p * B +: B]], 1, order = relaxed);
}
example tally { N = 65536; M = 512; ids = iota([512], 0) * 4; }
kernel strays(x: in f32[N], ids: in i32[N], y: out f32[64]) grid(p: 2) { y[0 +: 64] = x[ids[p * 64 +: 64]]; }
example strays { N = 128; x = iota([128], 0); ids = iota([128], 0); }
kernel bare(x: in f32[64], ids: in i32[64], y: out f32[64]) grid(p: 1) { y[:] = x[ids[:]]; }
END
expect 0 'read x .* a thread, 32 of 4 sectors, counted in 4 of 4 programs; bounds' inspect counted.tgl pick --run
expect 0 'read x .* a thread, sectors unknown: its indices are data; bounds' inspect counted.tgl pick
expect 0 'read x .* 2 of 2 sectors, counted in 4 of 4' inspect counted.tgl pick --run --example pairs
expect 0 'read x .* 18 of 4 sectors, counted in 64 of 128' inspect counted.tgl pick --run --example rising
expect 0 'read x .* 18 of 4 sectors, counted in 64 of 128' inspect counted.tgl pick --run --example rising --target=sm_80
expect 0 'read x .* 1 of 1 sectors, counted in 64 of 131072' inspect counted.tgl pick --run --example large -D B=128 -D persistent=true
expect 0 'atomic y .* 16 of 4 sectors, counted in 4 of 4' inspect counted.tgl tally --run
expect 0 '"sectors": 18.0' inspect counted.tgl pick --run --example rising --json
holds grep -q '"of_programs": 128' "$out"
expect 1 'two programs write\|race' inspect counted.tgl strays --run
expect 1 "kernel 'bare' has none" inspect counted.tgl bare --run
expect 1 'does not run what is for apple7' inspect counted.tgl pick --run --target=apple7
# rows whose sectors are known need no run
expect 0 '' inspect sectors.tgl rows --run
refuse 'counted'
# what moves elements between threads, and the barriers between
expect 0 'extract .* the part alone through shared memory; 1024 bytes at 0 of shared memory, a barrier in between$' inspect lines.tgl row
expect 0 '^row for sm_90a: 32 warps, 16384 bytes' inspect lines.tgl row -D warps=32
expect 0 'barrier *before this extract: .*, which it writes' inspect lines.tgl row
expect 0 '^last for sm_90a: 1 warp, 0 bytes' inspect lines.tgl last
expect 0 'extract *f32.32. *1 shuffle$' inspect lines.tgl last
expect 0 'gather *f32.256. *the whole tile through shared memory; 1024 bytes at 0' inspect lines.tgl srt
expect 0 'sort *f32.256. *within a warp$' inspect lines.tgl srt -D warps=1
expect 0 'sort *f32.256. *across warps; .* bytes at .* a barrier in between$' inspect lines.tgl srt -D warps=4
expect 0 '"what": "barrier"' inspect lines.tgl row --json
expect 1 "there is no kernel 'nothing'" inspect expect_wrong.tgl nothing
expect 1 "no target is called 'sm_1'" inspect expect_wrong.tgl --target=sm_1
expect 1 "vector(x) == 16 *good" check expect_wrong.tgl
expect 1 "warps >= 8 *WRONG: it is 2" check expect_wrong.tgl
holds grep -q "mma *WRONG" "$out"                      # there is no dot
expect 0 "1 good, 0 wrong" check --device cpu expect_wrong.tgl
expect 1 "there is no fact 'speed'; expected vector(x)" check expect_fact.tgl
expect 1 "there is no fact 'width' of a parameter" check expect_fact.tgl
expect 1 "the kernel does not access 'z'" check expect_fact.tgl

# Programs of little data run together, channels of records are read by words; what counts keeps a block for each program.
cat >gray.tgl <<'END'
kernel gray<BH = 4, BW = 64>(img: in u8[H, W, 3], out: out u8[H, W]) grid(pw: cdiv(W, BW), ph: cdiv(H, BH)) {
    let r = img[ph * BH +: BH, pw * BW +: BW, 0] as f32;
    let g = img[ph * BH +: BH, pw * BW +: BW, 1] as f32;
    out[ph * BH +: BH, pw * BW +: BW] = round(0.5 * r + 0.5 * g) as u8;
}
example gray { H = 8192; W = 8192; img = integers(0, 256); }
kernel tally<B = 64, BINS = 4096>(x: in f32[N], n: out i32[BINS] = 0) grid(p: cdiv(N, B)) {
    atomic_add(n[p % BINS], sum((x[p * B +: B] > 0.0) as i32), order = relaxed);
}
example tally { N = 16777216; x = normal(0, 1); }
END
expect 0 "read img *u8\[4, 64, 4\] *3 accesses of 8 bytes a thread" inspect gray.tgl gray -D BH=4 -D BW=64
expect 0 "chosen: share = [48]" inspect gray.tgl gray -D BH=4 -D BW=64
expect 0 "a block for each program, which takes long to start: it has atomic operations" inspect gray.tgl tally
# all to one place: a line of the L2 cache takes one after the other, unless blocks add up for their programs
expect 0 "mostly line 8, which is bound by: atomics" inspect gray.tgl tally -D B=64 -D BINS=1 -D persistent=false
expect 0 "chosen: persistent = true, .*; the default would take [45].. us: atomics" inspect gray.tgl tally -D B=64 -D BINS=1
expect 0 "chosen: B = [1-4]...; the default would take [45].. us: atomics" inspect gray.tgl tally -D BINS=1 -D persistent=false

# Waiting adds to memory in loops, so that more trips at once are compared; data picks elements of one row, which caches keep.
cat >rows.tgl <<'END'
kernel pool<BC = 64>(x: in f16[N, P, C], y: out f16[N, C]) grid(q: cdiv(C, BC), n: N) {
    var s = zeros([BC], f32);
    for p in range(P) { s += x[n, p, q * BC +: BC] as f32; }
    y[n, q * BC +: BC] = (s / P) as f16;
}
example pool { N = 1024; P = 49; C = 2048; x = normal(0, 1); }
kernel take<B = 128>(x: in f32[R, C], id: in i32[K], y: out f32[R, K]) grid(q: cdiv(K, B), r: R) {
    y[r, q * B +: B] = x[r, id[q * B +: B]];
}
example take { R = 16384; C = 2048; K = 2048; x = normal(0, 1); id = integers(0, C); }
END
expect 0 'chosen: unroll = 4, share = 4; the default would take' inspect rows.tgl pool -D BC=64
# of which each lane asks for its own sector: 79 us on an H200
expect 0 'estimated [78][0-9].* us: device memory' inspect rows.tgl take
holds grep -q 'chosen: B = 2048; the default would take [12].. us: .*starting blocks' "$out"

# The accesses that need a barrier; shared memory adds up to the total.
expect 0 'barrier .* before this put: dot_wait of 11:16 reads bytes 0 to [0-9]* of shared memory, which it writes' \
    inspect matmul.tgl -D K=576 -D BM=64 -D BN=32 -D BK=64 -D warps=8 -D stages=8 -D specialize=false
holds grep -q 'before [a-z]* of [0-9:]*: mbarrier of 10:5 initialises .*, at which it arrives' "$out"
cat >turns.tgl <<'END'
kernel turns(x: in f32[N], y: out f32[cdiv(N, 1024)]) grid(p: 1) {
    var s = 0.0 as f32;
    for i in range(0, N, 1024) {
        s += sum(x[i +: 1024]);
        y[i / 1024] = s;
    }
}
kernel strays(x: *mut f32, n: i32) grid(p: 1) {
    let i = iota(256, axis = 0);
    let v = load(x + i);
    store(x + (255 - i), v * 2);
}
example turns { N = 16384; x = normal(0, 1); }
END
cat >odd.tgl <<'END'
kernel odd(a: in i8[K, N], b: out i8[K, N]) grid(i: cdiv(K, 32)) { b[i * 32 +: 32, 0 +: 128] = a[i * 32 +: 32, 0 +: 128]; }
example odd { K = 64; N = 511; a = integers(-8, 8); }
END
expect 0 'read a .* of 1 byte a thread, .* no wider, since rows are 511 bytes apart' inspect odd.tgl
holds grep -q '2 programs for 132 multiprocessors: 130 have none' "$out"
holds grep -q 'mostly line 1, which waits for ' "$out"
expect 0 'barrier .* before this reduce: reduce.* 4:14 reads .* in an earlier iteration, which it writes' inspect turns.tgl turns -D warps=4
expect 0 'barrier .* before this store: load of 10:13 reads x, which it writes' inspect turns.tgl strays -D warps=4
# other chips' rates are published ones; the cpu device has no accesses to show
expect 0 'by published figures, not measured' inspect matmul.tgl --target=sm_80 --example large
holds grep -q 'chosen: BM' "$out"
expect 0 '^matmul for cpu: 4 programs' inspect matmul.tgl --target=cpu
holds grep -q 'not modelled: accesses' "$out"
expect 2 'run counts sectors' inspect matmul.tgl --target=cpu --run
# programs of products by warpgroups; what a line of several operations waits for; the access of threads that needs a barrier
cat >whole.tgl <<'END'
kernel few(x: in bf16[M, K], w: in bf16[K, N], y: out f32[M, N]) grid(i: cdiv(M, 128), j: cdiv(N, 128)) {
    var acc = zeros([128, 128], f32);
    for k in range(0, K, 64) { acc += x[i * 128 +: 128, k +: 64] @ w[k +: 64, j * 128 +: 128]; }
    y[i * 128 +: 128, j * 128 +: 128] = acc;
}
kernel sums<B = pow2ceil(C)>(x: in f16[R, C], y: out f32[R, C]) grid(r: R) {
    let v = x[r, 0 +: B] as f32;
    y[r, 0 +: B] = cumsum(v);
}
kernel warps<BM = 64, BN = 64, BK = 32>(x: in f32[M, K], w: in f32[K, N], y: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN]);
    for k in range(0, K, BK) { acc = dot(x[i * BM +: BM, k +: BK], w[k +: BK, j * BN +: BN], acc, precision = tf32x3); }
    y[i * BM +: BM, j * BN +: BN] = acc;
}
END
expect 0 ' programs for 132 multiprocessors: .* have none' inspect whole.tgl few -D M=512 -D N=512 -D K=4096 -D parts=1
expect 0 "mostly line 8, which waits for other threads' values" inspect whole.tgl sums -D R=300 -D C=3000
# tiles that cut the grid alone are the compiler's; not where an element's place in one counts, or the size is a value
cat >free.tgl <<'END'
kernel turned<BM = 16, BN = 16>(x: in f16[M, N], y: out f16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) {
    let j = pn * BN + arange(0, BN);
    y[pm * BM +: BM, pn * BN +: BN] = flip(x[(pm * BM + arange(0, BM))[:, new], (j + 1) % N], axis = 1);
}
kernel value<BM = 8, BN = 16>(x: in f16[M, N], y: out f16[M, N]) grid(pm: cdiv(M, BM), pn: cdiv(N, BN)) {
    y[pm * BM +: BM, pn * BN +: BN] = x[pm * BM +: BM, pn * BN +: BN] + BN % 5;
}
example turned { M = 16; N = 300000; x = 0; }
example value { M = 16; N = 300000; x = 0; }
END
expect 0 'read x  *f16.16, 16.' inspect free.tgl turned
expect 0 'read x  *f16.[0-9]*, 16.' inspect free.tgl value -D batch=1
expect 0 'BN stays 16: it is a value' inspect free.tgl value
# of products, too: of one size, and of what two are together
cat >value.tgl <<'END'
kernel lone<BM = 64, BN = 64, BK = 32>(x: in f16[M, K], w: in f16[K, N], y: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN]);
    for k in range(0, K, BK) {
        acc += x[i * BM +: BM, k +: BK] @ w[k +: BK, j * BN +: BN];
    }
    y[i * BM +: BM, j * BN +: BN] = acc + BM % 3;
}
kernel both<BM = 64, BN = 64, BK = 32>(x: in f16[M, K], w: in f16[K, N], y: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN)) {
    var acc = zeros([BM, BN]);
    for k in range(0, K, BK) {
        acc += x[i * BM +: BM, k +: BK] @ w[k +: BK, j * BN +: BN];
    }
    y[i * BM +: BM, j * BN +: BN] = where(BM * BN > 16384, acc + 1, acc);
}
kernel listed<BM = 128, BN = 64, BK = 32>(x: in f16[M, K], w: in f16[K, N], y: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN))
    tune(BM = {64, 128}, BN = {64, 128})
{
    var acc = zeros([BM, BN]);
    for k in range(0, K, BK) {
        acc += x[i * BM +: BM, k +: BK] @ w[k +: BK, j * BN +: BN];
    }
    y[i * BM +: BM, j * BN +: BN] = where(BM > 32, acc, 0);
}
example lone { M = 8; N = 512; K = 64; x = 0; w = 0; }
example listed { M = 8; N = 512; K = 64; x = 0; w = 0; }
example both { M = 4096; N = 4096; K = 4096; x = 0; w = 0; }
END
expect 0 'dot 64x' inspect value.tgl lone
expect 0 'BM stays 64: it is a value' inspect value.tgl lone
expect 0 'dot 64x64x' inspect value.tgl both
expect 0 'chosen: BM = \(64\|128\),' inspect value.tgl listed
# beside the time as it is built stands the one that the default's is compared with
cat >far.tgl <<'END'
kernel far<B = 64, D = 24>(x: in f32[N, D], p: in f32[K, D, D], y: out f32[N, K]) grid(k: K, b: cdiv(N, B)) {
    let d = x[b * B +: B, 0 +: D];
    y[b * B +: B, k] = sum((d @ p[k, 0 +: D, 0 +: D]) * d, axis = 1);
}
example far { N = 262144; K = 16; x = 0; p = 0; }
END
expect 0 "chosen: .*; the default would take" inspect far.tgl
holds grep -q 'as schedules are compared, it is estimated at .*, and products have no layouts yet' "$out"
expect 0 'f32.16384.' inspect softmax.tgl -D R=1 -D C=2000000000    # at once: nothing is lowered for a whole row
# Programs of one warp that take longest to start share blocks, however little the model knows of a scatter.
cat >ranks.tgl <<'END'
kernel ranks<B = 64>(x: in f16[R, 50], y: out u8[R, 50]) grid(r: R) {
    y[r, 0 +: B] = scatter(zeros([B], i32), argsort(x[r, 0 +: B] else inf), arange(0, B)) as u8;
}
example ranks { R = 131072; x = 0; }
END
expect 0 'chosen: share = [48];' inspect ranks.tgl --explain

# Where a value that nobody gave has no effect nothing is said of it.
cat >bytes.tgl <<'END'
kernel bytes<BM = 64, BN = 64, BK = 64>(a: in i8[M, K], b: in i8[N, K], c: out i32[M, N]) grid(m: cdiv(M, BM), n: cdiv(N, BN)) {
    var acc = zeros([BM, BN], i32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[n * BN +: BN, k +: BK].T; }
    c[m * BM +: BM, n * BN +: BN] = acc;
}
example bytes { M = 70; N = 50; K = 90; a = 1; b = 1; }
END
expect 0 'chosen: .*stages = ' inspect bytes.tgl --explain
refuse W1219
expect 0 W1219 inspect bytes.tgl -D stages=2
expect 0 "materialize = true. has no effect: no operand .* at other than multiples of 16 bytes" inspect matmul.tgl --example large -D materialize=true
expect 0 'barrier .* before copy of .*: get of .* reads' inspect whole.tgl warps -D M=512 -D N=512 -D K=256
expect 0 '' inspect matmul.tgl --json --example large
python3 - "$out" <<'PY' || fail "shared memory, or what lines cost, does not add up"
import json, sys
k, = json.load(open(sys.argv[1]))
held = max(l["shared_at"] + l["shared_bytes"] for l in k["lines"] if l["shared_bytes"])
assert held == k["shared_bytes"], (held, k["shared_bytes"])
assert any(l["what"] == "mbarriers" for l in k["lines"])
spent = {s["line"]: dict(s["parts"]) for s in k["spent"]}
assert spent[11]["products"] > 1000 and spent[11]["shared memory"] > spent[13]["shared memory"] > 0, spent
pair = next(l["pair"] for l in k["lines"] if l["what"] in ("barrier", "warp barrier"))
assert pair["first"]["does"] and pair["second"]["op"], pair
PY
# A loop whose trips data decides counts as one of as many trips as are guessed.
cat >halve.tgl <<'TGL'
kernel halve<B = 1024>(x: in f32[R, B], y: out f32[R]) grid(r: R)
{
    let v = x[r, :];
    var lo = 0.0;
    var hi = 1.0;
    while hi - lo > 1e-6 {
        let mid = (lo + hi) / 2;
        let big = sum(exp(v - mid)) >= 1;
        lo = big ? mid : lo;
        hi = big ? hi : mid;
    }
    y[r] = lo;
}
example halve { R = 8192; x = normal(0, 1); }
TGL
sed 's/while hi - lo > 1e-6/for t in range(16)/' halve.tgl >steps.tgl
expect 0 '"estimated_us"' inspect steps.tgl --target=sm_90a --json
cp "$out" steps.json
expect 0 '"estimated_us"' inspect halve.tgl --target=sm_90a --json
holds python3 - "$out" steps.json <<'PY'
import json, sys
a, b = (json.load(open(f))[0]["estimated_us"] for f in sys.argv[1:])
assert 0.9 * b < a < 1.1 * b, (a, b)
PY
# Places beside those that data names are other sectors, however near: L2 cache takes as long for them as for far ones.
for by in 1 50000; do
	cat >corners$by.tgl <<TGL
kernel corners<B = 256>(t: in f32[S], id: in i32[N], y: out f32[N]) grid(b: cdiv(N, B)) {
    let i = id[b * B +: B];
    y[b * B +: B] = t[i] + t[i + $by];
}
example corners { S = 1 << 21; N = 1 << 21; t = normal(0, 1); id = integers(0, S); }
TGL
	expect 0 ' estimated .* us: L2 cache ' inspect corners$by.tgl
	expect 0 '"estimated_us"' inspect corners$by.tgl --json
	cp "$out" corners$by.json
done
holds python3 - corners1.json corners50000.json <<'PY'
import json, sys
a, b = (json.load(open(f))[0]["estimated_us"] for f in sys.argv[1:])
assert 0.98 * b < a < 1.02 * b, (a, b)
PY
finish
