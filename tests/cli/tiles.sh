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
expect 0 'good' check tiles.tgl product --device=simt:sm_80 
expect 0 'f32.64, 64.' inspect tiles.tgl product -D BM=64 -D BN=64
sed 's/BM = {16, 64}, //' tiles.tgl >none.tgl
expect 1 'E0521' run none.tgl product --device=cpu
holds grep -q 'values in tune(...)' "$err"
finish
