# Machine code and the description of its launch beside it; ptxas is a stand-in, which copies the PTX that it is given.
. "$(dirname "$0")/expect"
cp "$top/tests/cli/saxpy.tgl" .
mkdir bin
cat >bin/ptxas <<'X'
#!/bin/sh
for a; do
	case $a in *.ptx) from=$a ;; *.cubin) to=$a ;; esac
done
[ -z "${INTERRUPT-}" ] || kill -INT 0
[ -z "${REFUSE-}" ] || { echo "ptxas fatal: refused"; exit 255; }
cp "$from" "$to"
X
chmod +x bin/ptxas
PATH=$PWD/bin:$PATH

# The description is what stands at the head of the PTX; machine code is made from PTX without it.
expect 0 "" build --target=sm_90a --emit=cubin saxpy.tgl -o saxpy.cubin
holds test ! -s "$out"
holds grep -q '^kernel saxpy of saxpy.tgl:[0-9]*, for sm_90a$' saxpy.cubin.txt
holds grep -q '^assumes:$' saxpy.cubin.txt

# Nothing is left of a folder that cannot take the PTX.
mkdir small
(ulimit -f 1; TMPDIR=$PWD/small expect 1 "cannot write" build --target=sm_90a --emit=cubin saxpy.tgl -o kept.cubin; [ "$failed" = 0 ]) ||
	fail "a limit of sizes"
holds test -z "$(ls small)"

# Nor where all of the group is interrupted, as the terminal does it, while the assembler runs.
if command -v setsid >/dev/null; then
	INTERRUPT=1 TMPDIR=$PWD/small setsid -w "$tegula" build --target=sm_90a --emit=cubin saxpy.tgl -o kept.cubin >/dev/null 2>&1
	holds test $? != 0
	for i in 1 2 3 4 5 6 7 8 9; do [ -z "$(ls small)" ] || sleep 0.2; done      # the shell may end last
	holds test -z "$(ls small)"
fi

expect 0 "^// kernel saxpy of" build --target=sm_90a --emit=ptx saxpy.tgl
sed 's|^// ||' saxpy.cubin.txt >described
holds test "$(head -n "$(wc -l <described)" "$out" | sed 's|^// ||')" = "$(cat described)"
holds test "$(tail -n +"$(($(wc -l <described) + 1))" "$out" | grep -v '^$' | cksum)" = "$(grep -v '^$' saxpy.cubin | cksum)"
cp "$out" printed
expect 0 "" build --target=sm_90a --emit=ptx saxpy.tgl -o saxpy.ptx
expect 0 "^llvm-open .* ms" build --target=sm_90a --emit=ptx saxpy.tgl --time -o saxpy.ptx
holds cmp printed saxpy.ptx

# From another folder the text is the same.
mkdir far
cp saxpy.tgl far
expect 0 "" build --target=sm_90a --emit=cubin "$PWD/far/saxpy.tgl" -o far/saxpy.cubin
holds cmp saxpy.cubin.txt far/saxpy.cubin.txt

# Tile IR has no header: what its types and parameters say is there.
expect 0 "" build saxpy.tgl --target=sm_90a -o saxpy.tir
expect 0 "^// kernel saxpy of saxpy.tgl" opt saxpy.tir --target=sm_90a --only= --emit=ptx

# It is never written where its description has no file, or for several kernels at once.
expect 2 "say where with -o" build --target=sm_90a --emit=cubin saxpy.tgl
expect 1 "cannot write 'no/k.cubin.txt'" build --target=sm_90a --emit=cubin saxpy.tgl -o no/k.cubin
printf 'kernel a(y: out f32[4]) { y[:] = 1.0; }\nkernel b(y: out f32[4]) { y[:] = 2.0; }\n' >pair.tgl
expect 1 "has several: name one" build --target=sm_90a --emit=cubin pair.tgl -o pair.cubin
holds test ! -e pair.cubin.txt
expect 0 "" build --target=sm_90a --emit=cubin pair.tgl b -o pair.cubin
holds grep -q '^kernel b of' pair.cubin.txt
holds grep -q '^  grid: 1 block$' pair.cubin.txt
export REFUSE=1
expect 1 "ptxas refuses" build --target=sm_90a --emit=cubin saxpy.tgl -o refused.cubin
holds test ! -e refused.cubin.txt
finish
