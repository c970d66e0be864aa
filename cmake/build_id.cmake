# Writes build_id.c: a hash of everything that decides what the compiler makes of a kernel (its own sources and the
# version of LLVM), by which what is kept on disk is told from what another compiler made.  Run at build time:
#
#     cmake -D OUT=build_id.c -D LIST=files -D LLVM=22.1.0 -P cmake/build_id.cmake
file(READ "${LIST}" files)                       # file(STRINGS) takes names apart at bytes beyond ASCII
string(STRIP "${files}" files)
string(REPLACE "\n" ";" files "${files}")
set(all "LLVM ${LLVM}")
foreach(f IN LISTS files)
	file(SHA256 "${f}" hash)
	string(APPEND all " ${hash}")
endforeach()
string(SHA256 id "${all}")
string(SUBSTRING ${id} 0 32 id)
file(WRITE "${OUT}" "/* Made by cmake/build_id.cmake. */\n#include \"runtime/cache/hash.h\"\n\nconst char build_id[] = \"${id}\";\n")
