# On a real NVIDIA GPU: what a pack's functions compute and refuse (pack.c), with machine code and as PTX for the driver.
. "$(dirname "$0")/../cli/expect"
. "$top/tests/gpu/present"
command -v cc >/dev/null || { echo "SKIP: there is no C compiler"; exit 77; }
cat "$top/dsl_examples/softmax.tgl" - >packed.tgl <<'END'
kernel product<BM = 128, BN = 128, BK = 64>(a: in bf16[M, K], b: in bf16[K, N], c: out bf16[M, N])
    grid(m: cdiv(M, BM), n: cdiv(N, BN)) {
    var acc = zeros([BM, BN], f32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[k +: BK, n * BN +: BN]; }
    c[m * BM +: BM, n * BN +: BN] = acc as bf16;
}
example product { M = 512; N = 512; K = 512; a = normal(0, 1); b = normal(0, 1); }
kernel clustered<BM = 128, BN = 128, BK = 64, warps = 8, stages = 3, specialize = 1, ctas = 2>(a: in bf16[M, K], b: in bf16[K, N],
        c: out bf16[M, N]) grid(m: cdiv(M, BM), n: cdiv(N, BN)) {
    var acc = zeros([BM, BN], f32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[k +: BK, n * BN +: BN]; }
    c[m * BM +: BM, n * BN +: BN] = acc as bf16;
}
example clustered { M = 512; N = 512; K = 512; a = normal(0, 1); b = normal(0, 1); }
kernel parted<BM = 64, BN = 64, BK = 64, split = 4>(a: in bf16[M, K], b: in bf16[K, N], c: out bf16[M, N])
    grid(m: cdiv(M, BM), n: cdiv(N, BN)) {
    var acc = zeros([BM, BN], f32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[k +: BK, n * BN +: BN]; }
    c[m * BM +: BM, n * BN +: BN] = acc as bf16;
}
example parted { M = 512; N = 512; K = 512; a = normal(0, 1); b = normal(0, 1); }
kernel careful(x: in f32[N], y: out f32[N], most: f32) grid(p: cdiv(N, 64)) {
    let v = x[p * 64 +: 64];
    assert(v <= most, "too large:", max(v));
    y[p * 64 +: 64] = v;
}
kernel tally<B = 64>(x: in strided i32[N, C], y: out i32[N, C], bins: out i32[8] = 7, work: scratch i32[N, C], by: i32)
    grid(r: N, c: cdiv(C, B)) {
    work[r, c * B +: B] = x[r, c * B +: B];
    let v = work[r, c * B +: B];
    y[r, c * B +: B] = v * by;
    atomic_add(bins[v / 3 & 7], 1);
}
END
for how in "" --ptx; do
	expect 0 'softmax: [0-9]* forms' pack packed.tgl $how -o made
	cp "$top/tests/gpu/pack.c" made
	cd made || exit 2
	holds cc -O1 -Wall -Wextra -Werror packed.c pack.c -o use -pthread -ldl -lm
	holds cc -O1 -shared -fPIC packed.c -o packed.so -pthread -ldl
	holds ./use
	holds grep -q '^3 cuInit failed: CUDA_ERROR_NO_DEVICE' "$(CUDA_VISIBLE_DEVICES= ./use says >said 2>&1; echo said)"
	mkdir -p old
	echo 'int cuInit(unsigned flags) { (void)flags; return 0; }' | cc -x c -shared -fPIC - -o old/libcuda.so.1
	holds grep -q '^3 the NVIDIA driver is too old: it lacks' "$(LD_LIBRARY_PATH=old ./use says >said 2>&1; echo said)"
	cd ..
done
finish
