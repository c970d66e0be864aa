# Tuning from the command line, on the cpu device: what is printed and kept, and results as text.
. "$(dirname "$0")/expect"
unset TEGULA_CACHE TEGULA_CACHE_LIMIT TEGULA_TUNE
export TEGULA_CACHE_DIR="$work/cache"

cat >scale.tgl <<'END'
kernel scale<BLOCK = 4>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, BLOCK))
    tune(BLOCK = {4, 1024, 2048, 4096}, warps = {2, 4}) where BLOCK <= 2048
{
    y[p * BLOCK +: BLOCK] = 2.0 * x[p * BLOCK +: BLOCK];
}
reference scale { y[:] = 2.0 * x[:]; }
example scale { N = 100000; x = normal(0, 1); }
example scale "timed" bench { N = 150000; x = normal(0, 1); }
kernel plain(x: in f32[N], y: out f32[N]) grid(p: N) { y[p] = x[p]; }
example plain { N = 8; x = zeros; }
END

on='--device cpu --threads 1'
expect 0 "^scale timed on cpu, 1 threads" tune scale.tgl scale $on --budget 5
holds grep -q "f32, f32; N = 262144" "$out"
holds grep -q "^  4 combinations" "$out"
holds grep -q "BLOCK = 4 (default): more than" "$out"
holds grep -q "pruned  BLOCK = 4096: where BLOCK <= 2048" "$out"
holds grep -q "won: BLOCK = [12]0[24][48]: .* times as fast as the default" "$out"
holds grep -q "kept in $work/cache/cache1.db" "$out"
holds test ! -s "$err"
expect 0 "BLOCK = [12]0" run scale.tgl scale $on -D N=145000
expect 0 "BLOCK = 4$" run scale.tgl scale $on
TEGULA_TUNE=ignore expect 0 "BLOCK = 4$" run scale.tgl scale $on -D N=145000
expect 0 "BLOCK = 16$" run scale.tgl scale $on -D N=145000 -D BLOCK=16
TEGULA_TUNE=off expect 0 "frozen: BLOCK = [12]0" tune scale.tgl scale $on
TEGULA_TUNE=off expect 0 "frozen: nothing is known" tune scale.tgl scale $on --example ""
TEGULA_TUNE=off expect 0 '"frozen": true' tune scale.tgl scale $on --json
expect 0 '"winner": "BLOCK = ' tune scale.tgl scale $on --example "" --json --budget 5
holds python3 -m json.tool "$out" /dev/null
expect 0 "2 tuning results" cache list

# A space that no integer counts is sampled, the same way in each run; every value of every name is in the sample.
awk 'BEGIN {
	for (i = 0; i < 32; i++) { names = names sep "A" i " = 1"; sets = sets sep "A" i " = {1, 2, 3, 4}"; sep = ", " }
	print "kernel k<" names ">(x: inout i32[N]) grid(i: N) tune(" sets ") where A0 <= A1 && A2 < 4 { x[i] = 1; }"
	print "example k { N = 20; x = arange; }" }' >space.tgl
TEGULA_CACHE=off expect 0 "more than 2^62 combinations, too many to try: the default and a random sample of" tune space.tgl $on --budget 0.1
TEGULA_CACHE=off expect 0 '"sampled": true' tune space.tgl $on --budget 0.1 --json
holds python3 - "$out" <<'END'
import json, sys
tried = [dict(p.split(' = ') for p in c['values'].split(', ')) for c in json.load(open(sys.argv[1]))[0]['candidates']]
assert 4000 < len(tried) < 17000
assert all({c['A%d' % i] for c in tried} == set('1234') for i in range(32))
assert len({tuple(c.values()) for c in tried}) == len(tried)
END

expect 0 "" tune --export results.txt
holds test "$(grep -c '^"cpu, 1 threads" scale' results.txt)" = 2
expect 0 "^2 removed" cache clear --tuning
expect 0 "BLOCK = 4$" run scale.tgl scale $on -D N=145000
expect 0 "^2 results taken" tune --import results.txt
expect 0 "BLOCK = [12]0" run scale.tgl scale $on -D N=145000
expect 0 "" tune --export -
holds cmp "$out" results.txt
echo nonsense >>results.txt
expect 1 "line 5 of the tuning results: .*E1147" tune --import results.txt
expect 1 "cannot read 'absent.txt'" tune --import absent.txt

# A file that ends for C before it does, and values that the header does not list: texts are anyone's.
head -n 3 results.txt >nul.txt
printf '# \0\n' >>nul.txt
sed -n 4p results.txt >>nul.txt
expect 0 "^2 removed" cache clear --tuning
expect 1 "line 4 of the tuning results: it holds a NUL byte .E1147" tune --import nul.txt
expect 0 "0 tuning results" cache list
for values in "BLOCK = 16" "BLOCK = 1024, stages = 3" "warps = 64"; do
	grep '^"cpu' results.txt | sed "s/: [A-Z].* (/: $values (/" >foreign.txt
	expect 0 "^2 results taken" tune --import foreign.txt
	expect 0 "BLOCK = 4$" run scale.tgl scale $on -D N=145000
	holds grep -q "scale.tgl:1:8: warning: a stored tuning result sets .*tune(...) of 'scale' does not list.*W0402" "$err"
	expect 0 "^2 removed" cache clear --tuning
done

# Damage is told by whichever command finds it, and what was set aside before stays.
n=0
for command in "run scale.tgl scale" "check scale.tgl" "tune scale.tgl scale --budget 5"; do
	n=$((n + 1))
	head -c 4000 /dev/zero | tr '\0' 'x' >"$work/cache/cache1.db"
	rm -f "$work/cache/cache1.db-wal" "$work/cache/cache1.db-shm"
	expect 0 "warning: the cache was damaged .*cache1.db.broken.*W0401" $command $on
	holds test "$(ls "$work/cache" | grep -c broken)" = $n
done

expect 1 "kernel 'plain' has nothing to tune: its header has no tune.*E1149" tune scale.tgl plain $on
expect 1 "every name of its tune(...) is given" tune scale.tgl scale $on -D BLOCK=8
expect 2 "seconds above 0, found 'soon'" tune scale.tgl scale $on --budget soon
expect 2 "expected: tegula tune" tune
finish
