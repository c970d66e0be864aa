# Files that are broken, hostile or not there: a message and exit 1, whatever they hold.
. "$(dirname "$0")/expect"

# Codes of messages that no .tgl file in a folder of tests can provoke.
expect 1 "E0001" build missing.tgl
expect 1 "E0001" build .
expect 1 "E0001" fmt missing.tgl
holds test "$(wc -l <"$err")" = 1
expect 1 "E0001" opt missing.tir
expect 1 "cannot read 'missing'" check missing
: >unreadable.tgl
chmod 000 unreadable.tgl
[ -r unreadable.tgl ] || expect 1 "E0001" build unreadable.tgl
truncate -s 65M large.tgl
expect 1 "E0002" build large.tgl
printf 'kernel k\000() grid(p: 1) {}\n' >nul.tgl
expect 1 "nul.tgl:1:9: error: .*E0003" build nul.tgl
expect 1 "nul.tgl:1:9: error: .*E0003" opt nul.tgl
printf 'const A = 1;\n// \377\n' >latin.tgl
expect 1 "latin.tgl:2:4: error: .*E0004" fmt latin.tgl

# A byte order mark at the start is no part of the text; elsewhere it is.
{ printf '\357\273\277'; cat "$top/tests/cli/saxpy.tgl"; } >mark.tgl
expect 0 "check y: good" run mark.tgl
expect 0 "" fmt mark.tgl
holds cmp "$out" "$top/tests/cli/saxpy.tgl"
printf '\357\273\277const A = nothing;\n' >mark.tgl
expect 1 "mark.tgl:1:11: error: " build mark.tgl
printf '\357\273\277// \377\n' >mark.tgl
expect 1 "offset 6" build mark.tgl
printf 'const A = \357\273\2771;\n' >mark.tgl
expect 1 "E0106" build mark.tgl

# An empty file is a file without kernels.
: >empty.tgl
expect 1 "has no kernel" run empty.tgl
expect 1 "has no kernel" build empty.tgl
expect 1 "no example to check" check empty.tgl
holds "$tegula" fmt empty.tgl

# Of a file that has none the kernels that it imports are taken, by every command; of one that has some, only those.
mkdir lib
for k in one two; do
	echo "kernel $k(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, 64)) { y[p * 64 +: 64] = 2.0 * x[p * 64 +: 64]; }
example $k { N = 100; x = normal(0, 1); }"
done >lib/both.tgl
grep one lib/both.tgl >lib/one.tgl
echo 'import "lib/one.tgl";' >imports.tgl
expect 0 '^one on cpu' run imports.tgl
expect 0 'kernel @one' build imports.tgl
expect 0 '^one for sm_90a' inspect imports.tgl
expect 0 '^one .*clean' race imports.tgl --target=sm_80
expect 0 '' report imports.tgl -o imports.html
expect 0 '^one: ' pack imports.tgl --target=cpu -o packed
echo 'import "lib/both.tgl";' >imports.tgl
expect 2 "has 2 kernels: name one of one, two" run imports.tgl
expect 0 'kernel @two' build imports.tgl
echo 'import "lib/one.tgl"; kernel own(y: out f32[N]) grid(p: cdiv(N, 64)) { y[p * 64 +: 64] = zeros([64]); }
example own { N = 100; }' >imports.tgl
expect 0 '^own on cpu' run imports.tgl
expect 0 'kernel @own' build imports.tgl
refuse '@one'

# Noise, a line of 10 MB, a million levels of nesting.
head -c 100000 "$tegula" >noise.tgl
expect 1 "error: " build noise.tgl
awk 'BEGIN { printf "const A = 1"; for (i = 0; i < 2500000; i++) printf " + 1"; print " + nothing;" }' >line.tgl
expect 1 "error: " build line.tgl
holds test "$(wc -c <"$err")" -lt 5000
for open in '(' '-' '[' '{' 'if (a) {' '1 + (' 'f(' 'x[' 'a ? ' '/*'; do
	awk -v open="$open" 'BEGIN { printf "fn f(a) { let b = "; for (i = 0; i < 1000000; i++) printf "%s", open }' >deep.tgl
	expect 1 "error: " build deep.tgl
	awk -v open="$open" 'BEGIN { printf "fn f(a) { "; for (i = 0; i < 100000; i++) printf "%s ", open }' >deep.tgl
	expect 1 "error: " fmt deep.tgl
	holds test "$(wc -c <"$err")" -lt 20000
done

# What was cut off is not missed a second time.
sed '/^reference/,$d' "$top/tests/cli/saxpy.tgl" >cut.tgl
echo 'reference saxpy { y[:]' >>cut.tgl
expect 1 "E01" build cut.tgl
refuse "never writes"

# Errors without end, of syntax and of names: counted in time that grows with the file.
awk 'BEGIN { print "fn f(a) {"; for (i = 0; i < 300000; i++) print "let = 3;"; print "}" }' >many.tgl
expect 1 "300000 errors, of which 20 are shown" build many.tgl
awk 'BEGIN { for (i = 0; i < 100000; i++) print "const A" i " = nothing" i ";"; print "let = 3;" }' >many.tgl
expect 1 " errors, of which 20 are shown" build many.tgl
awk 'BEGIN { for (i = 0; i < 20000; i++) print "kernel k" i "(x: in f33[N]) { y[0] = z" i "; }" }' >many.tgl
expect 1 "20000 errors, of which 20 are shown" build many.tgl

# One mistake is told once, however many trips or examples come past it.
cat >once.tgl <<'END'
kernel k<B = 32>(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, B)) {
    var a = 0;
    static for i in range(0, 1000000000) { a += i5; }
    y[p * B +: B] = 1.0;
}
example k "one" { N = 100; x = normal(0, 1) }
example k "two" { N = 200; x = normal(0, 1); }
END
expect 1 "unknown name 'i5'" build once.tgl
holds test "$(grep -c "unknown name" "$err")" = 1
refuse "more than [0-9]* expressions"

# Every way to cut a program short, and to lose one of its bytes.
cp "$top/dsl_examples/attention.tgl" whole.tgl
size=$(wc -c <whole.tgl)
at=1
while [ "$at" -lt "$size" ]; do
	head -c "$at" whole.tgl >cut.tgl
	"$tegula" build cut.tgl attention >/dev/null 2>"$err"
	[ $? -le 1 ] || { fail "crash on the first $at bytes of attention.tgl"; head -n 5 "$err"; }
	{ head -c "$((at - 1))" whole.tgl; tail -c "+$((at + 1))" whole.tgl; } >cut.tgl
	"$tegula" build cut.tgl attention >/dev/null 2>"$err"
	[ $? -le 1 ] || { fail "crash on attention.tgl without byte $at"; head -n 5 "$err"; }
	ran=$((ran + 2))
	at=$((at + 23))
done

# All errors in one go, as many as asked for, as JSON too.
awk 'BEGIN { for (i = 0; i < 30; i++) print "const A" i " = nothing" i ";" }' >many.tgl
expect 1 "30 errors, of which 20 are shown" build many.tgl
holds test "$(grep -c ': error: ' "$err")" = 20
expect 1 "30 errors, of which 3 are shown" build many.tgl --max-errors=3
expect 1 "nothing29" build many.tgl --max-errors=0
refuse "are shown"
expect 1 '"code": "E02' build many.tgl --json --max-errors=2
if command -v python3 >/dev/null; then
	holds python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d) == 2 and d[0]["line"] == 1, d' "$err"
fi
expect 1 "$(printf '\033')" build many.tgl --color=always
expect 1 "error" build many.tgl
refuse "$(printf '\033')"
# a file that cannot be read: where it is asked for
cat >absent.tgl <<'END'
kernel twice(x: in f32[N], y: out f32[N]) grid(i: N) { assert(x[i +: 2] > 0); y[i] = x[i] * 2; }
example twice { N = 8; x = file("absent.npy"); }
example twice "below" { N = 8; x = arange; }
END
expect 1 "absent.tgl:2:28: note: it is the input 'x'" run absent.tgl --device=cpu
# an assertion without a text
expect 1 'program 0 at element 0 \[E1195\]' run absent.tgl --device=cpu --example below
expect 1 'program 0 at element 0 \[E1195\]' run absent.tgl --device=simt:sm_80 --example below
# a file's tensor takes the strides of the example or the command line
cat >spread.tgl <<'END'
kernel twice(x: in strided f32[M, N], y: out f32[M, N]) grid(i: M) { y[i, 0 +: 8] = x[i, 0 +: 8] * 2; }
reference twice { y[:, :] = x[:, :] * 2; }
example twice { M = 5; N = 8; x = arange; }
example twice "file" { M = 5; N = 8; x = file("x.npy"); x.strides = [1, M]; }
END
expect 0 'good' run spread.tgl --device=cpu --out x=x.npy --out y=y.npy
expect 0 'x.strides = \[1, 5\]' run spread.tgl --device=cpu --example file --out y=z.npy
holds cmp y.npy z.npy
expect 0 'x.strides = \[10, 1\]' run spread.tgl --device=simt --arg x=x.npy -D 'x.strides=[N + 2, 1]' --out y=z.npy
holds cmp y.npy z.npy
# a file of packed elements says bytes; with an odd width its rows' last byte holds one element
cat >packed.tgl <<'END'
kernel widen(x: in i4[M, N], y: out i8[M, N]) grid(i: M) { y[i, 0 +: 8] = x[i, 0 +: 8] as i8; }
reference widen { y[:, :] = x[:, :] as i8; }
example widen { M = 3; N = 5; x = integers(-8, 8); }
END
expect 0 'good' run packed.tgl --device=cpu --out x=x.npy --out y=y.npy
expect 0 'good' run packed.tgl --device=cpu --arg x=x.npy -D N=5 --out y=z.npy
holds cmp y.npy z.npy
expect 0 'N = 6' run packed.tgl --device=cpu --arg x=x.npy
expect 1 "'N' is 4 by the command line, but 6 by dimension 1 of 'x' \[E0519\]" run packed.tgl --device=cpu --arg x=x.npy -D N=4
# so with a width that is a number, follows from a name, or is a later parameter's, and without an example
cat >odd.tgl <<'END'
kernel fives(x: in i4[M, 5], y: out i8[M, 5]) grid(i: M) { y[i, 0 +: 8] = x[i, 0 +: 8] as i8; }
example fives { M = 3; x = integers(-8, 8); }
kernel more(x: in i4[M, N + 1], y: out i8[M, N + 1]) grid(i: M) { y[i, 0 +: 8] = x[i, 0 +: 8] as i8; }
kernel scaled(x: in i4[M, N], w: in i8[N], y: out i8[M, N]) grid(i: M) { y[i, 0 +: 8] = w[0 +: 8] * (x[i, 0 +: 8] as i8); }
example scaled { M = 3; N = 5; x = integers(-8, 8); w = ones; }
END
expect 0 '' run odd.tgl scaled --device=cpu --out w=w.npy
expect 0 '' run odd.tgl fives --device=cpu --arg x=x.npy --out y=z.npy
holds cmp y.npy z.npy
expect 0 'N = 4' run odd.tgl more --device=cpu --arg x=x.npy -D N=4 --out y=z.npy
holds cmp y.npy z.npy
expect 0 'N = 5' run odd.tgl scaled --device=cpu --arg x=x.npy --arg w=w.npy --out y=z.npy
holds cmp y.npy z.npy
printf "\223NUMPY\001\000\166\000{'descr': '|u1', 'fortran_order': False, 'shape': (3, 0), }%58s\n" "" >none.npy
expect 0 'N = 0' run packed.tgl --device=cpu --arg x=none.npy -D N=0
expect 1 'N would be -1; a dimension is at least 0 \[E0526\]' run packed.tgl --device=cpu --arg x=none.npy -D N=-1
refuse 'is nothing by'
# a dimension that is a number or follows from others
cat >sized.tgl <<'END'
kernel pairs(x: in f32[N, 2], y: in f32[2 * N], z: out f32[N]) grid(i: N) { z[i] = x[i, 0] + y[i * 2]; }
example pairs { N = 4; x = arange; y = arange; }
kernel threes(x: in f32[N, 3], z: out f32[N]) grid(i: N) { z[i] = x[i, 2]; }
example threes { N = 4; x = arange; }
END
expect 0 "" run sized.tgl pairs --device=cpu --out x=x.npy --out y=y.npy
expect 1 "dimension 1 of 'x' must be 3, not 2 \[E0527\]" run sized.tgl threes --device=cpu --arg x=x.npy
expect 1 "dimension 0 of 'y' must be 2 \* N = 6, not 8 \[E0527\]" run sized.tgl pairs --device=cpu --arg y=y.npy -D N=3
finish
