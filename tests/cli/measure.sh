# report --measure with a GPU, which is the stand-in driver of tests/mock: a launch takes 10 us there, of whatever form.
. "$(dirname "$0")/expect"
mock=$(cd "$(dirname "$TEGULA")" && pwd)/mock
[ -f "$mock/libcuda.so.1" ] || exit 77
PATH=$top/tests/mock/without:$PATH
export LD_LIBRARY_PATH="$mock" TEGULA_CACHE=off
cat >soft.tgl <<'END'
kernel soft<BLOCK = pow2ceil(C)>(x: in f32[R, C], y: out f32[R, C]) grid(row: R) {
    let e = exp(x[row, 0 +: BLOCK] else -inf);
    y[row, 0 +: BLOCK] = e / sum(e);
}
example soft { R = 64; C = 1000; x = normal(0, 1); }
kernel add<B = 256>(x: in f32[N], y: out f32[N]) grid(b: cdiv(N, B)) { y[b * B +: B] = x[b * B +: B] + 1; }
example add { N = 65536; x = normal(0, 1); }
END
# Own time and those of all changes, as fast:: functions and as other tiles; both times are said.
expect 0 '"brief": "10.0 .* measured, ' report soft.tgl soft --measure --json
for k in soft add; do
	expect 0 'changes that were timed takes clearly less' report soft.tgl $k --measure --json
	expect 0 ' measured, 1 of the time ([^;]* by the model)' report soft.tgl $k --measure --json
	"$TEGULA" report soft.tgl $k --measure --json >report.json
	python3 - report.json <<'PY' || { echo "FAIL times of $k"; failed=$((failed + 1)); }
import json, sys
k, = json.load(open(sys.argv[1]))
assert abs(k["measured_us"] - 10) < .5, k["measured_us"]
times = [v.get("measured_us", 0) for v in k["variants"]]
assert times and all(abs(t - 10) < .5 for t in times), times
assert k["kernel"] != "soft" or any(v.get("fast") for v in k["variants"]), k["variants"]
PY
done
# A change that does not run has no time, and what went wrong with it is no error; of the kernel it is.
export MOCK_CUDA_FAIL=cuEventElapsedTime:1:700
expect 1 'E1140' report soft.tgl add --measure --json
unset MOCK_CUDA_FAIL
export MOCK_CUDA_DEVICES=0
expect 1 'E1153' report soft.tgl add --measure -o x.html
unset MOCK_CUDA_DEVICES
export MOCK_CUDA_CAPABILITY=80
expect 1 "runs code for 'sm_80' on cuda:0, and the page is of sm_90a: --target=sm_80" report soft.tgl add --measure -o x.html
expect 0 '"target": "sm_80"' report soft.tgl add --measure --target=sm_80 --json
unset MOCK_CUDA_CAPABILITY
expect 2 'measured gives the time that --measure takes' report soft.tgl add --measure --measured 5 -o x.html
# What an emulator takes is no time of a launch.
expect 1 'measure takes times of a GPU, and simt.* has none' report soft.tgl add --measure --device=simt:sm_90a -o x.html
expect 2 'device says where --measure runs' report soft.tgl add --device=cuda -o x.html
[ ! -e x.html ] || { echo "FAIL a page in spite of an error"; failed=$((failed + 1)); }
finish
