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
kernel careful(x: in f32[N], y: out f32[N], most: f32) grid(p: cdiv(N, 64)) {
    let v = x[p * 64 +: 64];
    assert(v <= most, "too large:", max(v));
    y[p * 64 +: 64] = v;
}
END
for how in "" --ptx; do
	expect 0 'softmax: [0-9]* forms' pack packed.tgl $how -o made
	cp "$top/tests/gpu/pack.c" made
	cd made || exit 2
	holds cc -O1 -Wall -Wextra -Werror packed.c pack.c -o use -pthread -ldl -lm
	holds cc -O1 -shared -fPIC packed.c -o packed.so -pthread -ldl
	holds ./use
	cd ..
done
finish
