#!/bin/sh
# tegula bench --profile: on the stand-in for the driver, with a stand-in for ncu that looks at what it is asked and prints
# pages as ncu 2025.3 does.
set -u
build=$(cd "$(dirname "$TEGULA")" && pwd)
TEGULA=$build/tegula
passed=0; failed=0
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
cd "$tmp" || exit 2
cat >columns.tgl <<'TGL'
kernel columns(x: in f32[M, N], y: out f32[N]) grid(p: cdiv(N, 8)) {
    let t = x[0 +: 512, p * 8 +: 8];
    y[p * 8 +: 8] = sum(t, axis=0);
}
example columns { M = 512; N = 64; x = normal(0, 1); }
example columns "large" bench { M = 512; N = 1024; x = normal(0, 1); }
TGL
cat >ncu <<'SH'
#!/bin/sh
echo "$*" >>asked
case "$*" in
--version) echo "Version 2025.3" ;;
*--page\ source*) cat <<'CSV'
"Kernel Name","columns",
"File Path","other.tgl"
"Function Name","f"
"Line No","Source","Address","Source","# Samples","Instructions Executed"
"2","let ""u"" = 1,","-","-","900","7"
"File Path","columns.tgl"
"Function Name","columns"
"Line No","Source","Address","Source","# Samples","Instructions Executed","L1 Wavefronts Shared","L1 Wavefronts Shared Ideal","L2 Theoretical Sectors Global","L2 Theoretical Sectors Global Ideal","stall_barrier","stall_long_sb","stall_long_sb (Not Issued)"
"1","kernel columns(x: in f32[M, N], ""y"") {","-","-","0","10","0","0","0","0","0","0","9"
"2","    let t = x[0 +: 512, p * 8 +: 8];","-","-","75","4096","0","0","4096","1024","5","70","90"
"","","0x10","      LDG.E R1","75","4096","0","0","4096","1024","5","70","90"
"3","    y[p * 8 +: 8] = sum(t, axis=0);","-","-","25","512","96","32","128","128","20","1","90"
CSV
	;;
*--page\ raw*) printf '"ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"\n"","","byte","byte","ns"\n"0","columns","2,097,152","4,096","12,500"\n' ;;
*) [ -z "${NCU_FAILS-}" ] || { echo "==ERROR== ERR_NVGPUCTRPERM"; exit 9; } ;;
esac
SH
chmod +x ncu
# status, a pattern (grep -E) that a line of the output matches, settings, then the arguments
try() {
	want=$1; pattern=$2; settings=$3; shift 3
	# shellcheck disable=SC2086
	env LD_LIBRARY_PATH="$build/mock" TEGULA_CACHE=off NCU=./ncu $settings "$TEGULA" bench --profile columns.tgl "$@" >out 2>&1
	got=$?
	if [ $got = "$want" ] && grep -Eq -- "$pattern" out; then
		passed=$((passed + 1))
	else
		echo "FAIL exit $got, expected $want and '$pattern': $settings tegula bench --profile $*"; cat out; failed=$((failed + 1))
	fi
}
try 0 '^profile of columns: 12\.50 us with counters on; device memory: 2\.10 MB read, 0\.00 MB written' '' --device=cuda
try 0 '^ +2 +75 % +global memory +93 % +4096  4\.00 \([0-9.]+\) +[0-9.]+ us +[a-zA-Z0-9 ]+ let t = x' '' --device=cuda
try 0 '^ +3 +25 % +a barrier +80 % +512  1\.00 \([0-9.]+\) +3\.00 .* y\[p' '' --device=cuda
if grep -Eq '^ +1 |other' out; then echo "FAIL a line without samples, or of another file"; cat out; failed=$((failed + 1)); fi
grep -q -- '-k regex:^columns$ .*tegula run --no-check --device=cuda --example=large -D M=256 -- columns.tgl columns$' asked &&
	echo "FAIL values that were not given" && failed=$((failed + 1))
try 0 '"stall": "global memory"' '' --device=cuda --json -D M=256
grep -q -- '-k regex:^columns$ .*tegula run --no-check --device=cuda --example=large -D M=256 -- columns.tgl columns$' asked || {
	echo "FAIL what ncu was asked"; cat asked; failed=$((failed + 1)); }
LD_LIBRARY_PATH="$build/mock" TEGULA_CACHE=off NCU=./ncu "$TEGULA" bench --profile columns.tgl --device=cuda --json >counters.json 2>/dev/null
"$TEGULA" report columns.tgl --profiled=counters.json --json | tr -d '\n ' | grep -q '"profile":{"kernel":"columns".*"stall":"globalmemory"' || {
	echo "FAIL the report has no counters"; failed=$((failed + 1)); }
"$TEGULA" inspect columns.tgl --example large --json >large.json
python3 - <<'PY' || { echo "FAIL the estimate is not that of the example which was measured"; failed=$((failed + 1)); }
import json
assert abs(json.load(open("counters.json"))["estimated_us"] / json.load(open("large.json"))[0]["estimated_us"] - 1) < 1e-9
PY
echo '{' >broken.json
"$TEGULA" report columns.tgl --profiled=broken.json -o none.html 2>&1 | grep -q 'broken.json: this is nothing that tegula bench' || {
	echo "FAIL a broken file of counters"; failed=$((failed + 1)); }
try 1 'ERR_NVGPUCTRPERM' NCU_FAILS=1 --device=cuda
try 1 'needs NVIDIA.s ncu' 'NCU=./none CUDA_HOME=/none' --device=cuda
try 1 'counters of an NVIDIA GPU' '' --device=cpu
[ -z "$(ls -d tegula* 2>/dev/null)" ] || { echo "FAIL folders are left"; failed=$((failed + 1)); }
echo "profile: $passed passed, $failed failed"
[ $failed = 0 ]
