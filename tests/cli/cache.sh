# The cache on disk from the command line; kernels come into it through a stand-in for NVIDIA's driver.
. "$(dirname "$0")/expect"
mock=$(dirname "$tegula")/mock
[ -f "$mock/libcuda.so.1" ] || { echo "cache.sh: there is no stand-in driver"; exit 77; }
unset TEGULA_CACHE TEGULA_CACHE_LIMIT
export TEGULA_CACHE_DIR="$work/cache" LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

cat >scale.tgl <<'END'
kernel scale<BLOCK = 256>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, BLOCK)) {
    y[p * BLOCK +: BLOCK] = 2.0 * x[p * BLOCK +: BLOCK];
}
example scale { N = 1000; x = normal(0, 1); }
END

expect 0 "^0 compiled kernels, 0 B of 512 MiB; 0 tuning results" cache list
expect 0 "^$work/cache/cache1.db$" cache path
holds test ! -e "$work/cache"
expect 0 "" run scale.tgl --device cuda
expect 0 "scale: BLOCK = 256  (scale.tgl)" cache list
expect 0 "^1 compiled kernels" cache list
expect 0 "" run scale.tgl --device cuda
expect 0 "^1 compiled kernels" cache list
if grep -q TEGULA_LLVM "$tegula"; then                     # opened at run time: a warm process does without (DIAG_LLVM_MISSING)
	TEGULA_LLVM=/nonexistent expect 0 "^scale on cuda:0" run scale.tgl --device cuda
	TEGULA_LLVM=/nonexistent expect 1 "needs LLVM, and it cannot be opened: /nonexistent.*E1303" \
	    run scale.tgl --device cuda -D BLOCK=64
	TEGULA_LLVM=$mock/libcuda.so.1 expect 1 "needs LLVM, and it cannot be opened: the library has no LLVM.*: another version.*E1303" run scale.tgl --device cuda -D BLOCK=64
	TEGULA_LLVM=/nonexistent expect 1 "TEGULA_LLVM=/path" build scale.tgl --target=sm_90a --emit=ptx
	TEGULA_LLVM=/nonexistent expect 1 "TEGULA_LLVM=/path" run scale.tgl --device=simt
	holds grep -q "needs LLVM, and it cannot be opened: /nonexistent.*E1303" "$err"
	TEGULA_LLVM=$mock/libcuda.so.1 expect 1 "opened: the library has no LLVM.*: another version.*E1303" \
	    run scale.tgl --device=simt
	refuse E1155
fi
expect 0 "" run scale.tgl --device cuda -D BLOCK=128 -D warps=2
expect 0 "scale: BLOCK = 128, warps = 2  (scale.tgl)" cache list
expect 0 '"values": "BLOCK = 256"' cache list --json
holds python3 -m json.tool "$out" /dev/null
expect 0 "^2 exported" cache export "$work/shared"
TEGULA_CACHE_DIR="$work/none" expect 0 "^0 exported" cache export "$work/empty"
expect 0 "^0 imported" cache import "$work/empty"
expect 0 "^0 exported" cache export "$work/shared"
expect 2 "cache export takes a folder" cache export
: >"$work/file"
expect 1 "warning: the folder .*/file' of the cache cannot be made" cache export "$work/file"
holds grep -q "^0 exported" "$out"
TEGULA_CACHE_LIMIT=1K TEGULA_CACHE_DIR="$work/small" expect 0 "^0 imported" cache import "$work/shared"
TEGULA_CACHE_DIR="$work/there" expect 0 "^2 imported" cache import "$work/shared"
TEGULA_CACHE_DIR="$work/there" expect 0 "^2 compiled kernels" cache list
TEGULA_CACHE_DIR="$work/there" expect 0 '"imported": 0' cache import "$work/shared" --json
chmod o+w "$work/shared"
TEGULA_CACHE_DIR="$work/else" expect 0 "^0 imported" cache import "$work/shared"
holds grep -q "warning" "$err"
expect 1 "cannot read 'no/where'" cache import no/where
expect 0 "^0 removed" cache prune
expect 0 "^1 removed" cache prune --limit 3K
expect 0 '"removed": 1' cache clear --tuning --json
expect 0 "^0 compiled kernels" cache list

TEGULA_CACHE_LIMIT=3M expect 0 "of 3.0 MiB" cache list
expect 2 "a size such as 100M, found 'much'" cache prune --limit much
expect 2 "found 'empty'" cache empty
expect 2 "expected: tegula cache" cache
TEGULA_CACHE=off expect 1 "there is no cache" cache path
TEGULA_CACHE=off expect 0 '"path": null' cache path --json
TEGULA_CACHE_DIR=/dev/null/x expect 0 "warning: the folder '/dev/null/x' of the cache cannot be made.*W0401" \
    run scale.tgl --device cuda
echo "not a database, but long enough to be taken for one, which takes a hundred bytes, as it happens, or some more" \
    >"$work/cache/cache1.db"
rm -f "$work/cache/cache1.db-wal" "$work/cache/cache1.db-shm"
expect 0 "the cache was damaged .*cache1.db.broken" run scale.tgl --device cuda
expect 0 "^1 compiled kernels" cache list
finish
