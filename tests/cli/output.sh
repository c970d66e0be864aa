# Files that the command writes appear whole or not at all, and what cannot be written is said.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/saxpy.tgl" .
full=/dev/full

# Standard output.
if [ -w $full ]; then
	for command in "build saxpy.tgl" "fmt saxpy.tgl" "run saxpy.tgl" "run saxpy.tgl --json" "check saxpy.tgl" help ops man \
	    "completion bash"; do
		ran=$((ran + 1))
		"$tegula" $command >$full 2>"$err"
		[ $? = 1 ] && grep -q 'cannot write to standard output' "$err" || fail "tegula $command >/dev/full"
	done
	expect 1 "cannot write '/dev/full'" build saxpy.tgl -o $full
	expect 1 "cannot write '/dev/full'.*E1211" run saxpy.tgl --out y=$full
	holds test -c $full
fi

# -o
expect 1 "cannot write 'no/where'" build saxpy.tgl -o no/where
expect 1 "cannot write '.'" build saxpy.tgl -o .
expect 0 "" build saxpy.tgl -o a.tir
holds test ! -s "$out"
holds grep -q 'kernel @saxpy' a.tir
holds test "$(stat -c %a a.tir 2>/dev/null || stat -f %Lp a.tir)" = "$(printf '%o' $((0666 & ~$(umask))))"
expect 0 "" opt a.tir -o b.tir
holds cmp a.tir b.tir
echo before >kept
expect 1 "error" build missing.tgl -o kept
holds grep -q before kept

# `-o -` is standard output.
expect 0 'kernel @saxpy' build saxpy.tgl -o -
expect 0 '<html' report saxpy.tgl -o -
expect 0 'kernel void saxpy' build saxpy.tgl --emit=metal -o -
expect 2 'say where with -o' build saxpy.tgl --target=sm_90a --emit=cubin -o -
expect 2 'which folder' pack saxpy.tgl -o -
holds test ! -e ./- -a ! -e ./-.txt
if [ -e /dev/stdout ]; then                             # which leads to a pipe, as to a file
	"$tegula" build saxpy.tgl -o /dev/stdout 2>"$err" | cat >"$out"
	holds grep -q 'kernel @saxpy' "$out"
fi

# A file's name need not be UTF-8: what is printed is, and can be read back.
odd=$(printf 'x\377\\\"y.tgl')
if cp saxpy.tgl "$odd"; then
	for command in "build -o odd.tir" "build --target=sm_90a --emit=thread -o odd.thr"; do
		expect 0 "" ${command%% *} "$odd" ${command#* }
	done
	for made in odd.tir odd.thr; do
		expect 0 saxpy opt $made
		holds cmp "$out" $made
	done
	expect 0 "" check "$odd" --device=cpu --json
	holds grep -q "\"file\": \"x$(printf '\303\277')" "$out"
	echo 'kernel' >"$odd"
	expect 1 '"file": "x.u00ff' build "$odd" --json
fi

# A file that may not grow so large.
(ulimit -f 8; expect 1 "cannot write 'large.npy'" run saxpy.tgl -D N=1000000 --out y=large.npy; [ "$failed" = 0 ]) || fail "a limit of sizes"
holds test -z "$(ls large.npy* 2>/dev/null)"

# Memory that the system refuses is said.
for kilobytes in 250000 350000; do
	(ulimit -v $kilobytes && "$tegula" --version >"$out" 2>&1) || continue          # a sanitizer needs more to start
	(ulimit -v $kilobytes; expect 1 "E11[89][69]" run saxpy.tgl -D N=8000000; [ "$failed" = 0 ]) || fail "a limit of memory"
done

# A link stays a link, modes stay, a file that is read-only stays as it is.
echo old >real
chmod 640 real
ln -s real link
expect 0 "" build saxpy.tgl -o link
holds test -L link
holds grep -q 'kernel @saxpy' real
holds test "$(stat -c %a real 2>/dev/null || stat -f %Lp real)" = 640
if [ "$(id -u)" != 0 ]; then
	echo old >locked
	chmod 400 locked
	expect 1 "cannot write 'locked'" build saxpy.tgl -o locked
	expect 1 "cannot write 'locked'" run saxpy.tgl --out y=locked
	holds test "$(cat locked)" = old
	mkdir closed
	chmod 500 closed
	expect 1 "cannot write 'closed/x'" build saxpy.tgl -o closed/x
	expect 1 "cannot write 'closed/x.npy'" run saxpy.tgl --out y=closed/x.npy
fi

# A link to nothing makes what it names; one to itself is an error; names of one file are written together.
mkdir far
ln -s far/made dangling
expect 0 "" build saxpy.tgl -o dangling
holds test -L dangling
holds grep -q 'kernel @saxpy' far/made
ln -s loop loop
expect 1 "cannot write 'loop'" build saxpy.tgl -o loop
expect 1 "cannot write 'loop'" run saxpy.tgl --out y=loop
echo old >one
ln one two
expect 0 "" build saxpy.tgl -o one
holds grep -q 'kernel @saxpy' two
expect 0 "" run saxpy.tgl --out y=one
holds cmp one two

# The longest names that a folder takes.
name=$(printf '%0250d' 0).tir
expect 0 "" build saxpy.tgl -o "$name"
expect 0 "" run saxpy.tgl --out "y=$name"

# One --out a tensor, one file an --out.
expect 2 "names 'y' twice" run saxpy.tgl --out y=a.npy --out y=b.npy
expect 2 "to one file" run saxpy.tgl --out x=a.npy --out y=./a.npy
ln -sf a.npy other
expect 2 "to one file" run saxpy.tgl --out x=a.npy --out y=other
holds test ! -e a.npy
expect 0 "" run saxpy.tgl --out x=/dev/null --out y=/dev/null

# Nothing is left of a write that a signal ends, whenever it comes.
for wait in 0.05 0.1 0.15 0.2 0.3; do
	for signal in TERM KILL; do
		"$tegula" run saxpy.tgl -D N=16000000 --out y=cut.npy >"$out" 2>&1 &
		sleep $wait
		kill -$signal $! 2>/dev/null
		wait $! 2>/dev/null
		[ ! -e cut.npy ] || holds test "$(wc -c <cut.npy)" = 64000128
		rm -f cut.npy
	done
done

# fmt
printf 'kernel   k( y:out f32[N] )grid( p:N ){y[p]=1.0;}\n' >ugly.tgl
cp ugly.tgl same.tgl
expect 1 "^ugly.tgl$" fmt --check ugly.tgl
holds cmp -s ugly.tgl same.tgl
expect 0 "^kernel k(y: out f32\[N\])" fmt ugly.tgl
expect 0 "" fmt -i ugly.tgl
expect 0 "" fmt --check ugly.tgl
holds test ! -s "$out"
cp ugly.tgl same.tgl
expect 0 "" fmt -i ugly.tgl
holds cmp -s ugly.tgl same.tgl
printf 'kernel k(' >broken.tgl
expect 1 "error" fmt -i broken.tgl ugly.tgl
holds test "$(cat broken.tgl)" = 'kernel k('
expect 0 "kernel" fmt ugly.tgl saxpy.tgl
holds test "$(grep -c '^kernel' "$out")" = 2

# Nothing is left behind.
holds test -z "$(find . -name '*.??????' ! -name '*.tgl' | grep -v '[.]tir$')"
holds test -z "$(find . -name '.tegula-*' -o -name '*.part')"
finish
