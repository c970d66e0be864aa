# Tiles that nobody gave, on the cpu device: by its row in large launches, the header's own in others.
. "$(dirname "$0")/expect"
cat >tiles.tgl <<'END'
kernel scale<B = 64>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) { y[p * B +: B] = 2 * x[p * B +: B]; }
reference scale { y[:] = 2 * x[:]; }
example scale { N = 8388608; x = normal(0, 1); }
kernel product<BM, BN = 16>(a: in f32[M, K], b: in f32[K, N], c: out f32[M, N]) grid(i: cdiv(M, BM), j: cdiv(N, BN))
    tune(BM = {16, 64}, BN = {16, 64})
{
    var acc = zeros([BM, BN], f32);
    for k in range(0, K, 32) { acc += a[i * BM +: BM, k +: 32] @ b[k +: 32, j * BN +: BN]; }
    c[i * BM +: BM, j * BN +: BN] = acc;
}
reference product { c[:, :] = a[:, :] @ b[:, :]; }
example product { M = 768; K = 512; N = 768; a = normal(0, 1); b = normal(0, 1); }
END
run() { kernel=$1; shift; expect 0 'good' run tiles.tgl "$kernel" --device=cpu --threads=2 "$@"; }
# programs of 64 elements are mostly the interpreter's own time
run scale
holds grep -q 'B = [0-9][0-9][0-9][0-9]' "$out"
run scale -D B=64
holds grep -q 'B = 64$' "$out"
# what takes no longer than choosing stays
run scale -D N=4096
holds grep -q 'B = 64$' "$out"
# operands of small tiles are read again and again; a name without a default has the first value listed
run product
holds grep -q 'BM = 64, BN = 64' "$out"
run product -D M=64 -D N=64 -D K=64
holds grep -q 'BM = 16, BN = 16' "$out"
run product -D BM=32 -D BN=16
holds grep -q 'BM = 32, BN = 16' "$out"
# a GPU chooses among the same, and takes the first without an estimate
expect 0 'good' check tiles.tgl product --device=simt:sm_80 -D M=192 -D N=160 -D K=96
expect 0 'f32.64, 64.' inspect tiles.tgl product -D BM=64 -D BN=64 -D parts=1
# on one side of a square's diagonal and on it stay 136 of 256 programs, or 528 of 1024
half="$top/tests/choose/halves.tgl gram_beside --example large -D M=2048 -D K=8192"
expect 0 '136 programs for 132 multiprocessors: some execute 2' inspect $half -D BM=128
expect 0 'chosen: BM = 64, ' inspect $half
# Apple's GPUs: tiles that registers and threadgroup memory hold, by figures that others published
cp "$top/dsl_examples/matmul.tgl" "$top/dsl_examples/conv2d.tgl" "$top/dsl_examples/softmax.tgl" .
large="matmul.tgl -D M=2048 -D N=2048 -D K=2048"
expect 0 'dot 64x64x32 s8x8x8.bf16' inspect $large --explain --target=apple7
holds grep -q 'BM = 64, BN = 64, BK = 32  (chosen)' "$out"
holds grep -Eq '1[.][0-9]*  .*waiting .*; the header.s own ?(\(.*\))?$' "$out"
holds grep -q 'refused [0-9]*: threadgroup memory cannot hold its operands, as BM' "$out"
expect 0 '"bill": "[0-9.]* us: products' inspect $large --explain --json --target=apple9
expect 0 'simdgroup_float8x8 acc.16.' build --emit=metal $large
expect 0 'dot 128x128x64' inspect $large --target=apple7 -D BM=128 -D BN=128 -D BK=64
expect 0 'dot 128x[0-9]*x[0-9]* s8' inspect $large --target=apple7 -D BM=128
# four simdgroups have no room for the sums of 128 x 128
expect 0 'refused [0-9]*: a lane has fewer registers, as the header.s own' inspect conv2d.tgl --explain --target=apple8
expect 0 'nothing was compared: the estimate knows products alone' inspect softmax.tgl --explain --target=apple7
sed 's/BM = {16, 64}, //' tiles.tgl >none.tgl
expect 1 'E0521' run none.tgl product --device=cpu
holds grep -q 'values in tune(...)' "$err"
finish
