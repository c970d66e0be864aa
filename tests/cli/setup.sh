# ./setup where LLVM comes from its own packages: a failed download or another key ends it before anything is added.
# Every command that would reach the system is a stand-in that writes down how it was called.
. "$(dirname "$0")/expect"
mkdir bin
stub() {
	printf '#!/bin/sh\necho "%s $*" >>%s/calls\n%s\n' "$1" "$PWD" "$2" >bin/$1
	chmod +x bin/$1
}
stub uname 'echo Linux'
stub id 'echo 0'
stub dpkg-query 'exit 1'
stub apt-get ''
stub apt-cache ''
stub tee 'cat >/dev/null'
stub mkdir ''
stub install ''
stub cmake 'exit 9'
stub python3 'exit 1'                           # no packages from PyPI
cp "$top/setup" .
setup() {
	want=$1
	: >calls
	PATH=$PWD/bin:$PATH sh ./setup >"$out" 2>&1
	got=$?
	ran=$((ran + 1))
	[ "$got" = "$want" ] || { fail "setup: exit $got, expected $want"; cat "$out"; }
}

stub wget 'exit 4'
stub gpg 'echo fpr:::::::::6084F3CF814B57C1CF12EFD515CF4D18AF4F7421:'
setup 1
holds grep -q 'could not be fetched' "$out"
holds test -z "$(grep -E '^(tee|install|cmake)' calls)"

stub wget ''
stub gpg 'echo fpr:::::::::0000000000000000000000000000000000000000:'
setup 1
holds grep -q 'nothing was added' "$out"
holds test -z "$(grep -E '^(tee|install|cmake)' calls)"

stub gpg 'exit 2'
setup 1
holds test -z "$(grep -E '^(tee|install|cmake)' calls)"

# The right key: the source is added, the packages are installed, and the build begins.
stub gpg 'echo pub::::; echo fpr:::::::::6084F3CF814B57C1CF12EFD515CF4D18AF4F7421:; echo fpr:::::::::1:'
setup 9
holds grep -q '^tee /etc/apt/sources.list.d/llvm-22.list' calls
holds grep -q '^apt-get install .*llvm-22-dev' calls

# The compiler's identity, in a folder whose name is beyond ASCII.
\mkdir "ü x" && echo 1 >"ü x/ä.c" && echo 2 >"ü x/b.c"
printf '%s\n' "$PWD/ü x/ä.c" "$PWD/ü x/b.c" >list
identity() { cmake -D "OUT=$PWD/ü x/id.c" -D "LIST=$PWD/list" -D LLVM=22 -P "$top/cmake/build_id.cmake" && grep build_id "ü x/id.c"; }
one=$(identity)
echo 3 >"ü x/ä.c"
two=$(identity)
holds test -n "$one"
holds test "$one" != "$two"
finish
