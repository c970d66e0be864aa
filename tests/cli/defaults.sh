# bench/defaults: its files are whole after every kernel, and what the time does not reach is named.
. "$(dirname "$0")/expect"
command -v python3 >/dev/null || { echo "defaults.sh: there is no python3"; exit 77; }
defaults() {
	ran=$((ran + 1)) last="bench/defaults $*"
	TEGULA=$tegula "$top/bench/defaults" --device cpu --output table.md --json found.json "$@" >"$out" 2>"$err"
	got=$?
	[ $got -le 1 ] || fail "exit $got: $last"
}

defaults --only saxpy --budget 0.3
holds grep -q '^| saxpy | .* of 4 |$' table.md
holds grep -q '^[01] of [01] within a tenth of tuned' table.md
refuse 'left out'
holds python3 -c 'import json; r, = json.load(open("found.json")); assert r["kernel"] == "saxpy" and r["took"] > 0, r'
defaults --only saxpy --only softmax --limit 0.01
holds test $got = 1
holds grep -q 'left out for want of time: saxpy, softmax, softmax_online[.] ' table.md
holds test "$(cat found.json)" = '[]'
holds test ! -e table.md.new
finish
