# Writes pack_text.c: the files that are parts of every pack (pack/), as strings.  Run at build time:
#
#     cmake -D OUT=pack_text.c -D SOURCE=folder -P cmake/pack_text.cmake
set(text "/* Made by cmake/pack_text.cmake. */\n#include \"tool/pack/pack.h\"\n\n")
foreach(part header:pack/launcher.h types:runtime/cuda/cuda_types.h tables:pack/tables.h launcher:pack/launcher.c
		host:pack/host.c torch:pack/torch.h)
	string(REGEX REPLACE ":.*" "" name ${part})
	string(REGEX REPLACE ".*:" "" file ${part})
	file(READ "${SOURCE}/${file}" hex HEX)
	string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
	string(APPEND text "const char pack_text_${name}[] = {${bytes}0};\n")
endforeach()
file(WRITE "${OUT}" "${text}")
