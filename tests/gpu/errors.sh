# On a real NVIDIA GPU: what goes wrong there is a message with the call and the mend.  Each command is a process of its
# own, as a kernel's fault ends all work of the one that it happens in.  (tests/unit/test_cuda.c and tests/cli/cuda.sh say
# the same of every failure on the stand-in.)
. "$(dirname "$0")/../cli/expect"
. "$top/tests/gpu/present"

cat >faults.tgl <<'END'
// Two tensors, more than any GPU has together.
kernel large(x: out u8[N], y: out u8[N]) grid(p: 1) { x[0] = 1; y[0] = 2; }
kernel wild(x: *mut f32, y: out f32[4], at: i64) grid(p: 4) { store(x + at, 1.0); y[p] = 1.0; }
kernel careful(x: in f32[N], y: out f32[N]) grid(p: N) {
    assert(x[p] < 2.5, "must be small:", x[p]);
    y[p] = x[p];
}
kernel copy<BLOCK = 256>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, BLOCK)) {
    y[p * BLOCK +: BLOCK] = x[p * BLOCK +: BLOCK];
}
reference copy { y[:] = x[:]; }
example copy { N = 1000; x = normal(0, 1); }
kernel refused(y: out i32[32]) grid(p: 1) {
    static if target == "ptx" {
        y[0 +: 32] = inline_ptx("no.such.instruction $0, $1;", "=r,r", arange(0, 32), i32);
    } else {
        y[0 +: 32] = arange(0, 32);
    }
}
kernel products<BM = 256, BN = 128, BK = 128>(a: in bf16[M, K], b: in bf16[K, N], c: out f32[M, N])
    grid(m: cdiv(M, BM), n: cdiv(N, BN)) {
    var acc = zeros([BM, BN], f32);
    for k in range(0, K, BK) { acc += a[m * BM +: BM, k +: BK] @ b[k +: BK, n * BN +: BN]; }
    c[m * BM +: BM, n * BN +: BN] = acc;
}
example products { M = 256; N = 128; K = 1024; a = normal(0, 1); b = normal(0, 1); }
END
cat >hand.cu <<'END'
extern "C" __global__ void __launch_bounds__(64) narrow(const float *x, float *y, long long N) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < N) y[i] = x[i];
}
extern "C" __global__ void wild(const float *x, float *y, long long N) { y[(N << 40) + threadIdx.x] = 1; }
END

# What is there, and what is not.
expect 0 '^cuda:0 .*compute capability .* for sm_' devices
expect 1 "device 'cuda:99' cannot be opened: there \(is 1 GPU\|are [0-9]* GPUs\), numbered from 0" run faults.tgl copy --device=cuda:99
CUDA_VISIBLE_DEVICES=
export CUDA_VISIBLE_DEVICES
expect 0 '^cuda .*CUDA_ERROR_NO_DEVICE' devices
expect 1 'CUDA_ERROR_NO_DEVICE' run faults.tgl copy --device=cuda
expect 0 'on cpu$' run faults.tgl copy
unset CUDA_VISIBLE_DEVICES
expect 0 '^copy on cuda:0$' run faults.tgl copy

# Memory.
expect 1 'no memory for a tensor .* of 107374182400 bytes' run faults.tgl large -D N=107374182400 --device=cuda

# Launches that the machine cannot take: threads, shared memory of the compiler's and of others.
hand() { w=$1 p=$2 k=$3; shift 3; expect "$w" "$p" bench faults.tgl copy --device=cuda --rounds=1 --vs "hand.cu:$k" --grid 'cdiv(N, 64)' "$@"; }
hand 0 'check y of narrow: good' narrow --block 64
hand 1 'a block has 128 threads, and .* runs at most 64 of this kernel.s in one block' narrow --block 128
hand 1 'a block needs 900000 bytes of shared memory, and .* has [0-9]*' narrow --block 64 --shared 900000
expect 1 'a block needs [0-9]* bytes of shared memory; sm_.* has [0-9]*' run faults.tgl products --device=cuda -D stages=6
expect 0 '^products on cuda:0$' run faults.tgl products --device=cuda -D stages=2

# Faults.
expect 1 'CUDA_ERROR_ILLEGAL_ADDRESS' run faults.tgl wild --arg 'x=zeros([4])' -D at=1099511627776 --device=cuda
holds grep -q -e '--device=cpu --sanitize' "$err"
expect 1 "stores to element 1099511627776 of 'x'" run faults.tgl wild --arg 'x=zeros([4])' -D at=1099511627776 --device=cpu --sanitize
hand 1 'CUDA_ERROR_ILLEGAL_ADDRESS, result 700' wild --block 64
expect 1 'assertion failed in program [3-7].*: must be small: [3-7]' run faults.tgl careful --arg 'x=arange(0, 8) as f32' -D N=8 --device=cuda
expect 0 '^careful on cuda:0$' run faults.tgl careful --arg 'x=zeros([8])' -D N=8 --device=cuda
expect 1 'no.such.instruction\|ptxas\|CUDA_ERROR_INVALID_PTX' run faults.tgl refused --device=cuda

# After all that the GPU is as it was.
expect 0 'check y: good' run faults.tgl copy --device=cuda
finish
