#!/bin/sh
# The command with a GPU, which is the stand-in driver of tests/mock: what devices are listed, which one is taken, and what
# people read when something is missing.  Kernels do not run there, so outputs keep the poison that checks look for.
set -u
here=$(cd "$(dirname "$0")" && pwd)
mock=$(dirname "$TEGULA")/mock
[ -f "$mock/libcuda.so.1" ] || exit 77
passed=0; failed=0
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cd "$here" || exit 2
export TEGULA_CACHE_DIR="$tmp/cache"
# status, a pattern (grep -E) that a line of the output matches, settings, then the arguments
try() {
	want=$1; pattern=$2; settings=$3; shift 3
	# shellcheck disable=SC2086
	env LD_LIBRARY_PATH="$mock" $settings "$TEGULA" "$@" >"$tmp/out" 2>&1
	got=$?
	if [ $got != "$want" ]; then
		echo "FAIL exit $got, expected $want: $settings tegula $*"; cat "$tmp/out"; failed=$((failed + 1))
	elif ! grep -Eq -- "$pattern" "$tmp/out"; then
		echo "FAIL no line matches '$pattern': $settings tegula $*"; cat "$tmp/out"; failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}
try 0 '^cuda:0   Mock GPU 0, compute capability 9.0, .* for sm_90a$' '' devices
try 0 '^cuda:1   Mock GPU 1' MOCK_CUDA_DEVICES=2 devices
try 0 'no CUDA-capable device' MOCK_CUDA_DEVICES=0 devices
try 0 'driver is too old: it is made for CUDA 11.2' MOCK_CUDA_DRIVER=11020 devices
try 0 'compute capability 7.0, and 7.5 is the least' MOCK_CUDA_CAPABILITY=70 devices
try 0 '"name": "cuda:1"' MOCK_CUDA_DEVICES=2 devices --json
# numbered for a cluster that it is not launched as
try 0 '^  not checked$' '' run --no-check ../../dsl_examples/attention.tgl -D B=1 -D H=4 -D G=1 -D S=256 -D L=1 -D D=192 -D BM=128 \
	-D BN=64 -D stages=1 -D specialize=true -D ctas=8
try 1 '^saxpy on cuda:0$' '' run saxpy.tgl
try 1 'a block has [0-9]+ threads of 24 registers and 0 bytes of shared memory; [0-9]+ at once on a multiprocessor' '' run saxpy.tgl
try 1 '"registers": 24' '' run saxpy.tgl --json
try 1 'on cuda:1$' MOCK_CUDA_DEVICES=2 run saxpy.tgl --device=cuda:1
try 1 'elements are wrong' '' run saxpy.tgl --device=cuda
try 0 'on cpu$' MOCK_CUDA_DEVICES=0 run saxpy.tgl
# An example's run has what a launch has, however many inputs it makes.
cat >"$tmp/first.tgl" <<'TGL'
kernel first<BC = 64, BT = 32>(x: in f16[B, T, C], y: out f16[B, T, C]) grid(c: cdiv(C, BC), b: B) {
    var m = full([BC], -inf, f32);
    var l = zeros([BC], f32);
    for t in range(0, T, BT) {
        let v = x[b, t +: BT, c * BC +: BC] as f32;
        let n = max(m, max(v, axis = 0));
        l = l * exp(m - n) + sum(exp(v - n[new, :]), axis = 0);
        m = n;
    }
    for t in range(0, T, BT) {
        y[b, t +: BT, c * BC +: BC] = (exp(x[b, t +: BT, c * BC +: BC] as f32 - m[new, :]) / l[new, :]) as f16;
    }
}
example first { B = 16; T = 1024; C = 2048; x = normal(0, 1); }
TGL
chosen=$("$TEGULA" inspect --target=sm_90a "$tmp/first.tgl" | sed -n 's/^  chosen: \([^;]*\);.*/\1/p')
try 0 "BC = 64, ${chosen:-nothing}\$" '' run "$tmp/first.tgl" --device=cuda --no-check
try 0 'on cpu$' '' run saxpy.tgl --sanitize
try 0 'on cpu$' '' run saxpy.tgl --threads=1
try 1 "device 'cuda:1' cannot be opened: there is 1 GPU, numbered from 0" '' run saxpy.tgl --device=cuda:1
try 1 "it cannot sanitize" '' run saxpy.tgl --device=cuda --sanitize
try 1 '  cuda:1 .*WRONG' MOCK_CUDA_DEVICES=2 check saxpy.tgl
try 1 '  cpu .*good' MOCK_CUDA_DEVICES=2 check saxpy.tgl
try 0 '  cpu .*good' '' check saxpy.tgl --sanitize
# a reference that needs a scalar's value, of a kernel for which the compiler chooses something
try 1 '^0 good, 4 wrong, 0 failed' '' check --device=cuda ../semantics/split.tgl two_sums
try 1 'no memory for a tensor .* of [0-9]+ bytes' MOCK_CUDA_MEMORY=20000 run saxpy.tgl
try 1 'cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY' MOCK_CUDA_FAIL=cuMemAlloc_v2:3:2 run saxpy.tgl
try 1 'cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.*E1140' MOCK_CUDA_FAIL=cuLaunchKernelEx:2:701 run saxpy.tgl
try 1 'cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES.*E1140' 'TEGULA_PDL=off MOCK_CUDA_FAIL=cuLaunchKernel:1:701' run saxpy.tgl
try 1 'cuEventSynchronize failed: CUDA_ERROR_ILLEGAL_ADDRESS' MOCK_CUDA_FAIL=cuEventSynchronize:0:700 run saxpy.tgl
try 1 'cuStreamSynchronize failed: unknown to the driver, result 12345' MOCK_CUDA_FAIL=cuStreamSynchronize:3:12345 run saxpy.tgl
# Registers in local memory are warned of once a kernel, what a print keeps there is not (DIAG_SPILLS).
try 1 "^saxpy.tgl:[0-9:]* warning: 'saxpy' needs more registers .* on sm_90a: 992 bytes a thread are spilled .*W1220" \
	MOCK_CUDA_LOCAL=992 run saxpy.tgl
try 1 'help: .*leaves? each thread less to hold' MOCK_CUDA_LOCAL=992 run saxpy.tgl
try 1 W1220 MOCK_CUDA_LOCAL=992 check saxpy.tgl --device=cuda
cat >"$tmp/shows.tgl" <<'END'
kernel shows<B = 64>(x: in f32[B], y: out f32[B]) { y[:] = x[:]; print("sum", sum(x[:])); }
example shows { x = normal(0, 1); }
kernel twice<B = 64>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) tune(B = {64, 128, 256}) { y[p * B +: B] = x[p * B +: B]; }
example twice "small" { N = 100; x = normal(0, 1); }
example twice "large" { N = 128; x = normal(0, 1); }
END
# the lines of output that warn of it, settings, arguments
warned() {
	want=$1; settings=$2; shift 2
	# shellcheck disable=SC2086
	env LD_LIBRARY_PATH="$mock" $settings "$TEGULA" "$@" >"$tmp/out" 2>&1
	if [ "$(grep -c W1220 "$tmp/out")" = "$want" ]; then
		passed=$((passed + 1))
	else
		echo "FAIL not $want times W1220: $settings tegula $*"; cat "$tmp/out"; failed=$((failed + 1))
	fi
}
warned 0 '' run saxpy.tgl
warned 0 MOCK_CUDA_LOCAL=40 run "$tmp/shows.tgl" shows
warned 1 MOCK_CUDA_LOCAL=800 run "$tmp/shows.tgl" shows
warned 1 MOCK_CUDA_LOCAL=40 check "$tmp/shows.tgl" twice --device=cuda
warned 1 MOCK_CUDA_LOCAL=40 tune "$tmp/shows.tgl" twice --example=small --budget=2
warned 1 MOCK_CUDA_LOCAL=40 bench "$tmp/shows.tgl" twice --example=small
# Without the stand-in: either a real driver, or words about where it comes from.
"$TEGULA" devices >"$tmp/out" 2>&1
if grep -Eq '^cuda' "$tmp/out" && ! grep -q Mock "$tmp/out"; then
	passed=$((passed + 1))
else
	echo "FAIL tegula devices"; cat "$tmp/out"; failed=$((failed + 1))
fi
echo "cuda.sh: $passed passed, $failed failed"
[ $failed = 0 ]
