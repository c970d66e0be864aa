# help, the man page and the completions are views of one table: whatever a command takes is in all of them.
. "$(dirname "$0")/expect"

expect 0 "^tegula [0-9]*[.][0-9]*[.][0-9]*$" --version
expect 0 "Usage: tegula COMMAND" help
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$out")
holds test "$(echo "$commands" | wc -l)" -ge 12
"$tegula" man >man.1
"$tegula" completion bash >tegula.bash
"$tegula" completion zsh >_tegula
for c in $commands; do
	expect 0 "Usage: tegula $c" help "$c"
	[ "$c" = help ] || expect 0 "^  -h, --help " "$c" --help
	holds grep -q "^[.]B $c" man.1
	holds grep -q "$c) words=" tegula.bash
	holds grep -q "$c) _arguments" _tegula
	for o in $(sed -n 's/^  \(-.,\)* *--\([a-z-]*\).*/\2/p' "$out"); do
		holds grep -q -e "\\\\-\\\\-$(printf '%s' "$o" | sed 's/-/\\\\-/g')" man.1
		holds grep -q -e "$c) words='.*--$o" tegula.bash
		holds grep -q -e "$c) _arguments.*--$o" _tegula
	done
done
holds cmp "$top/cmake/tegula.1" man.1
if command -v groff >/dev/null; then
	holds test -z "$(groff -man -Tutf8 -ww man.1 2>&1 >/dev/null)"
fi
if command -v bash >/dev/null; then
	complete() { bash -c '. ./tegula.bash; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tegula; echo ${COMPREPLY[*]}' bash "$@"; }
	holds test "$(complete tegula ch)" = check
	holds test "$(complete tegula run --exa)" = --example
	holds test "$(complete tegula fmt m)" = man.1
fi
if command -v zsh >/dev/null; then holds zsh -n _tegula; fi

# Every op and every pass is listed, as a table too.
expect 0 "^matmul\|^dot" ops
lines=$(wc -l <"$out")
expect 0 "^| \`dot\` | 3 | 1 |" ops --markdown
holds test "$(sed '/^$/q' "$out" | grep -c '^| `')" = "$lines"    # the table of attributes stands behind an empty line
expect 0 "^simplify" passes
expect 0 "^| \`licm\` |" passes --markdown
expect 0 "^cpu " devices
finish
