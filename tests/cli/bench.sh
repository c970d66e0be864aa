#!/bin/sh
# tegula bench: on the cpu and simt devices as it is, on a GPU through the stand-ins for driver and NVRTC (tests/mock).  A
# handwritten kernel there does what a comment of its code says; ours does nothing, so that its check fails.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$(dirname "$TEGULA")" && pwd)
passed=0; failed=0
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
cp "$here/copy.tgl" .
export TEGULA_CACHE=off MOCK_CUDA_MEMORY=4194304 LIBRARIES=
# status, a pattern (grep -E) that a line of the output matches, settings, then the arguments
try() {
	want=$1; pattern=$2; settings=$3; shift 3
	# shellcheck disable=SC2086
	env LD_LIBRARY_PATH="$LIBRARIES" $settings "$TEGULA" bench copy.tgl "$@" >out 2>&1
	got=$?
	if [ $got != "$want" ]; then
		echo "FAIL exit $got, expected $want: $settings tegula bench copy.tgl $*"; cat out; failed=$((failed + 1))
	elif ! grep -Eq -- "$pattern" out; then
		echo "FAIL no line matches '$pattern': $settings tegula bench copy.tgl $*"; cat out; failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}
holds() { if "$@"; then passed=$((passed + 1)); else echo "FAIL $*"; cat out; failed=$((failed + 1)); fi; }

# Without a GPU.
try 0 '^copy large on cpu: ' '' --device=cpu --threads=1
try 0 '^  N = 4096, BLOCK = 256$' '' --device=cpu
try 0 '^copy on cpu: ' '' --device=cpu --example=
try 0 'check y of tegula: good' '' --device=cpu
try 0 'check: left out' '' --device=cpu --no-check
try 0 '^  tegula +[0-9.]+ [mu]s +[0-9.]+ +- +[0-9.]+ %' '' --device=cpu
try 0 '^  7 rounds of 1 launch over 3 input sets$' '' --device=cpu --rounds=7 --sets=3 --seconds=100
try 0 '^  5 rounds of 1 launch ' '' --device=cpu --seconds=0.0001
try 0 'on simt' '' --device=simt -D N=500 -D BLOCK=128 --rounds=5
try 0 '^ "sets": 1,$' '' --device=cpu --json
try 0 '^"copy","large","N=4096 BLOCK=256",cpu,"tegula",[0-9.e-]+,' '' --device=cpu --csv
holds test "$(head -n 1 out | tr , '\n' | wc -l)" = "$(tail -n 1 out | sed 's/"[^"]*"/x/g' | tr , '\n' | wc -l)"
try 0 . '' --device=cpu --plot=plot.svg
holds grep -q 'prefers-color-scheme: dark' plot.svg
holds test "$(tail -n 1 plot.svg)" = '</svg>'
if command -v xmllint >/dev/null; then
	holds xmllint --noout plot.svg
elif command -v python3 >/dev/null; then
	holds python3 -c 'import xml.dom.minidom; xml.dom.minidom.parse("plot.svg")'
fi
try 1 "cannot write 'no/plot.svg'" '' --device=cpu --plot=no/plot.svg
try 1 'has no example "none"' '' --device=cpu --example=none
try 2 '--rounds takes a number' '' --rounds=0
try 2 "--seconds takes a number of seconds, found 'soon'" '' --seconds=soon
try 2 "--rest takes a number of milliseconds, found '-1'" '' --rest=-1
try 2 '--sets takes at most' '' --sets=1000
try 2 '--vs takes FILE.cu:KERNEL' '' --vs copy.cu
try 2 '--vs needs --grid and --block' '' --vs copy.cu:copy
try 2 '--grid is of the kernel that --vs names' '' --grid 1

# Handwritten kernels: FILE, then lines of its code.
cat >copy.cu <<'END'
#include "part.cuh"
extern "C" __global__ void hand(const float *x, float *y, long long N);
//ptx .version 8.0
//ptx .visible .entry hand(.param .u64 x, .param .u64 y, .param .u64 N)
//ptx { // mock: copy 1 0 2
//ptx }
//ptx .visible .entry wrong(.param .u64 x, .param .u64 y, .param .u64 N)
//ptx { // mock: copy 1 0 2
//ptx // mock: set 1 0x3f800000
//ptx }
//ptx .visible .entry _Z4evenPKfPfx(.param .u64 x, .param .u64 y, .param .u64 N)
//ptx { }
//ptx .visible .entry bad(.param .u64 x, .param .u64 y, .param .u64 N)
//ptx { // mock: crash 700
//ptx }
END
echo '#error this is not for compiling' >bad.cu
echo 'int part;' >part.cuh
try 1 "device 'cpu' has no handwritten kernels" '' --device=cpu --vs copy.cu:hand --grid 1 --block 64
[ -f "$build/mock/libcuda.so.1" ] && [ -f "$build/mock_nvrtc/libnvrtc.so.13" ] || { echo "bench.sh: $passed passed, $failed failed"; [ $failed = 0 ]; exit; }
LIBRARIES="$build/mock:$build/mock_nvrtc"
# Two rounds, as the stand-in's clock is the same in each.
vs() {
	w=$1; p=$2; s=$3; k=$4; shift 4
	case "$*" in *--rounds=*) ;; *) set -- --rounds=2 "$@" ;; esac
	try "$w" "$p" "$s" --vs "$k" --grid 'cdiv(N, 128)' --block 128 "$@"
}
vs 1 'check y of hand: good' '' copy.cu:hand
vs 1 'check y of tegula: WRONG, greatest error / bound inf' '' copy.cu:hand
vs 1 'check y of wrong: WRONG' '' copy.cu:wrong
vs 0 "^  ratio 1[.]000 [(]1[.]000 [.][.] 1[.]000[)]: hand's time / tegula's" '' copy.cu:hand --no-check
vs 0 '^  hand +10[.]0 us +3[.]3 ' '' copy.cu:hand --no-check
vs 0 '^  5 rounds of [0-9]+ launches over 4 input sets' '' copy.cu:hand --no-check --rounds=5
vs 0 '^  hand +128 threads of 24 registers and 512 bytes of shared memory a block' '' copy.cu:hand --no-check --shared=512
vs 0 '^  1 round of ' MOCK_CUDA_LOG=log copy.cu:hand --no-check --rounds=1 --rest=1
holds grep -q '^nvrtc --gpu-architecture=sm_90a$' log
holds grep -q '^nvrtc -I[.]$' log
vs 0 '"ratio": [{]$' '' copy.cu:hand --no-check --json
vs 0 ',"hand",' '' copy.cu:hand --no-check --csv --plot=vs.svg
holds grep -q 'ratio 1.000' vs.svg
# Products have a ceiling of their own, measured by a kernel that the command writes.
product() {
	sed "s/TYPE/$1/; s/SUM/$2/; s/VALUES/$3/g" >product.tgl <<'END'
kernel product<T: dtype = TYPE>(a: in T[M, K], b: in T[K, N], c: out SUM[M, N]) grid(p: 1) {
    c[0 +: 64, 0 +: 64] = a[0 +: 64, 0 +: 32] @ b[0 +: 32, 0 +: 64];
}
example product { M = 64; N = 64; K = 32; a = VALUES; b = VALUES; }
END
	env LD_LIBRARY_PATH="$LIBRARIES" MOCK_CUDA_MEMORY=16777216 "$TEGULA" bench product.tgl --rounds=1 --no-check --plot=product.svg >out 2>&1
	holds grep -Eq "^  products of $1 tiles alone: [0-9.]+ TFLOP/s" out
	holds grep -q 'products [0-9]* TFLOP/s' product.svg
}
product bf16 f32 'normal(0, 1)'
product i8 i32 'randint(0, 4)'
# What goes wrong: DIAG_FOREIGN_FILE, DIAG_FOREIGN_SOURCE, DIAG_FOREIGN_NAME, DIAG_FOREIGN_GRID, DIAG_FOREIGN_BLOCK.
vs 1 "error: cannot read 'none.cu': No such file.*E1220" '' none.cu:hand
vs 1 "error: NVRTC refuses 'bad.cu' .E1222" '' bad.cu:hand
holds grep -q '^bad.cu(1): error: #error this is not for compiling' out
holds grep -q '1 error detected' out
vs 1 "error: 'copy.cu' has no kernel 'hadn'.*E1223" '' copy.cu:hadn
holds grep -q "did you mean 'hand'?" out
vs 1 'it has hand, wrong, _Z4evenPKfPfx, bad$' '' copy.cu:something_else
vs 1 'declare it extern "C"' '' copy.cu:even
vs 1 'CUDA_ERROR_ILLEGAL_ADDRESS, result 700' '' copy.cu:bad
vs 1 'NVRTC 13.0 failed for sm_90a with result 5' MOCK_NVRTC_FAIL=5 copy.cu:hand
holds grep -q 'install the newest NVRTC' out
vs 1 'E1140' MOCK_CUDA_FAIL=cuGraphLaunch:3:701 copy.cu:hand --no-check
vs 1 'E1140' MOCK_CUDA_FAIL=cuGraphInstantiateWithFlags:2:2 copy.cu:hand --no-check
try 1 "the grid '0 . N' has 0 blocks.*E1224" '' --vs copy.cu:hand --grid '0 * N' --block 128
try 1 "the grid 'N / 2.0' has .* blocks" '' --vs copy.cu:hand --grid 'N / 2.0' --block 128
try 1 "<grid>:1:" '' --vs copy.cu:hand --grid 'cdiv(N' --block 128
try 1 "unknown name 'M'|there is no 'M'|'M'" '' --vs copy.cu:hand --grid 'cdiv(M, 2)' --block 128
try 1 'a block of 2000 threads.*E1225' '' --vs copy.cu:hand --grid N --block 2000
try 1 'a block needs [0-9]+ bytes of shared memory' '' --vs copy.cu:hand --grid N --block 64 --shared 999999
mv part.cuh elsewhere.cuh
vs 1 'cannot open source file "part.cuh"' '' copy.cu:hand
mv elsewhere.cuh part.cuh
# The real NVRTC, where there is one, takes every handwritten kernel of the benchmark.
top=$(cd "$here/../.." && pwd)
LIBRARIES="$build/mock"
real() { try "$1" "$2" '' --vs "$top/bench/handwritten/$3" --grid 1 --block 32 --no-check --rounds=1; }
if [ -f "$top/bench/handwritten/rows.cu" ] && { [ -e /usr/local/cuda/lib64/libnvrtc.so.13 ] || [ -e /usr/local/cuda/lib64/libnvrtc.so.12 ]; }; then
	real 0 "ratio .*: vector_add_f32's" elementwise.cu:vector_add_f32
	real 1 "did you mean 'rope_f16'" shapes.cu:rope_f15
	real 1 "did you mean 'softmax_f32_1024'" rows.cu:softmax_f32_1023
	echo 'extern "C" __global__ void k(float *x) { x[0] = y; }' >real.cu
	try 1 'real.cu.1.: error: identifier "y" is undefined' '' --vs real.cu:k --grid 1 --block 32
fi
# bench/defaults: a table of defaults against tuned; where nothing differs, all are within a tenth.
if command -v python3 >/dev/null; then
	env LD_LIBRARY_PATH="$build/mock" MOCK_CUDA_MEMORY=400000000 python3 "$top/bench/defaults" --only topk_gating --budget 2 >out 2>&1
	holds test $? = 0
	holds grep -q '^1 of 1 within a tenth of tuned[.]' out
	holds grep -Eq '^. topk_gating . N = 65536, .* . 10[.]00 . 10[.]00 . 1[.]000 ' out
	env LD_LIBRARY_PATH="$build/mock" MOCK_CUDA_MEMORY=1000000 python3 "$top/bench/defaults" --only vector_add --output table.md >out 2>&1
	holds test $? = 1
	holds grep -q 'no memory for a tensor' out
	holds grep -q 'failed: vector_add, vector_add_pointers' table.md
fi
# bench/forms: the own choice and others, with what the model says of each.
if command -v python3 >/dev/null; then
	cat >loop.tgl <<'END'
kernel mean<B = 64>(x: in f32[R, C], y: out f32[C]) grid(p: cdiv(C, B)) {
    var s = zeros([B], f32);
    for r in range(0, R) {
        s = s + x[r, p * B +: B];
    }
    y[p * B +: B] = s / R;
}
example mean "large" bench { R = 512; C = 1024; x = normal(0, 1); }
END
	env LD_LIBRARY_PATH="$build/mock" MOCK_CUDA_MEMORY=400000000 python3 "$top/bench/forms" loop.tgl --budget 2 >out 2>&1
	holds test $? = 0
	holds grep -Eq '^. mean . loop . warps = [0-9]+, unroll = [0-9]+, .* . 10[.]0 . [0-9.]+ . ' out
	holds grep -q '1 of 1 within a tenth of the best form' out
fi
# No NVRTC, DIAG_FOREIGN_COMPILER: what stands in for it is no library, and there is no toolkit.
mkdir empty
: >empty/libnvrtc.so.13
: >empty/libnvrtc.so.12
LIBRARIES="$build/mock:$tmp/empty"
vs 1 'CUDA C\+\+ cannot be compiled here: there is no NVRTC.*E1221' CUDA_HOME=/nonexistent copy.cu:hand
holds grep -q 'install CUDA.s NVRTC 12 or later' out
echo "bench.sh: $passed passed, $failed failed"
[ $failed = 0 ]
