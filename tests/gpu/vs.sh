# On a real NVIDIA GPU with NVRTC: `tegula bench --vs` compares what both kernels compute with the reference, races them on
# the same tensors, and neither moves more than the copy that takes turns with them.
. "$(dirname "$0")/../cli/expect"
. "$top/tests/gpu/present"
bench=$top/bench/handwritten
examples=$top/dsl_examples

# EXAMPLE FILE:KERNEL GRID BLOCK SIZES...: both right, a ratio, and shares of the ceiling that can be.
race() {
	example=$1 vs=$2 grid=$3 block=$4
	shift 4
	expect 0 '"ratio": {' bench "$examples/$example.tgl" --device=cuda --vs "$bench/$vs" --grid "$grid" --block "$block" --rounds=7 --json "$@"
	holds test "$(grep -c '"passed": true' "$out")" -ge 2
	refuse '"passed": false'
	expect 0 "^\"$example\"" bench "$examples/$example.tgl" --device=cuda --vs "$bench/$vs" --grid "$grid" --block "$block" --rounds=7 --csv "$@"
	holds awk -F, -v file="$example" '
		NR == 1 { for (i = 1; i <= NF; i++) if ($i == "of_copy") column = i }
		NR > 1 { n++; if (!($column > 0.3 && $column < 1.05)) { print file ": " $0; bad = 1 } }
		END { exit bad || n != 2 }' "$out"
}
race vector_add elementwise.cu:vector_add_f32 'cdiv(N, 2048)' 512
race softmax rows.cu:softmax_f32_8192 R 1024 -D R=2048 -D C=8192

# A handwritten kernel that is wrong is told, and is not raced as if it were right.
cat >wrong.cu <<'END'
extern "C" __global__ void late(const float *x, const float *y, float *z, long long N) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < N) z[i] = x[i] + y[i] + (i == N - 1 ? 0.01f : 0.0f);
}
extern "C" __global__ void lazy(const float *x, const float *y, float *z, long long N) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < N - 1) z[i] = x[i] + y[i];
}
END
for kernel in late lazy; do
	expect 1 "check z of $kernel: WRONG" bench "$examples/vector_add.tgl" --device=cuda --example= --vs "wrong.cu:$kernel" \
		--grid 'cdiv(N, 256)' --block 256 --rounds=1
	holds grep -q 'check z of tegula: good' "$out"
done

# Products have their own ceiling.
expect 0 'products of bf16 tiles alone' bench "$examples/matmul.tgl" --device=cuda -D M=2048 -D N=2048 -D K=2048 --rounds=5 --no-check
expect 0 '^"matmul"' bench "$examples/matmul.tgl" --device=cuda -D M=2048 -D N=2048 -D K=2048 --rounds=5 --csv --no-check
holds awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "of_products") c = i } NR > 1 && !($c > 0.1 && $c < 1.05) { print; bad = 1 } END { exit bad }' "$out"
finish
