# LLVM 22 through its C interface: TEGULA_LLVM is what a program links.
#
# The shared libLLVM by default, opened when code is first made.  With -DTEGULA_STATIC_LLVM=ON the archives of NVPTX and of this machine (the simt device),
# unused parts dropped: a binary that needs no more than libc and libm.  libz and libzstd are named by the archives but
# never reached (they compress debug sections of object files): their archives are linked where there are any, else
# names that stop the program stand in for them (cmake/unreached.c).
option(TEGULA_STATIC_LLVM "Link LLVM into the binary" OFF)
set(TEGULA_LLVM_VERSION 22)

find_program(LLVM_CONFIG NAMES llvm-config-${TEGULA_LLVM_VERSION} llvm-config
	HINTS /usr/lib/llvm-${TEGULA_LLVM_VERSION}/bin /opt/homebrew/opt/llvm@${TEGULA_LLVM_VERSION}/bin
	/usr/local/opt/llvm@${TEGULA_LLVM_VERSION}/bin /opt/homebrew/opt/llvm/bin /usr/local/opt/llvm/bin
	DOC "llvm-config of LLVM ${TEGULA_LLVM_VERSION}")
set(llvm_mend "Install it with ./setup, or llvm-${TEGULA_LLVM_VERSION}-dev (Debian, Ubuntu; https://apt.llvm.org) or 'brew install llvm@${TEGULA_LLVM_VERSION}', or say where it is: -DLLVM_CONFIG=/path/to/llvm-config")
if(NOT LLVM_CONFIG)
	message(FATAL_ERROR "LLVM ${TEGULA_LLVM_VERSION} is needed and no llvm-config was found.\n${llvm_mend}")
endif()

function(llvm_ask out)
	execute_process(COMMAND ${LLVM_CONFIG} ${ARGN} OUTPUT_VARIABLE said ERROR_VARIABLE complaint RESULT_VARIABLE failed
		OUTPUT_STRIP_TRAILING_WHITESPACE)
	if(failed)
		message(FATAL_ERROR "${LLVM_CONFIG} ${ARGN}: ${complaint}\n${llvm_mend}")
	endif()
	set(${out} "${said}" PARENT_SCOPE)
endfunction()

llvm_ask(llvm_version --version)
if(NOT llvm_version MATCHES "^${TEGULA_LLVM_VERSION}[.]")
	message(FATAL_ERROR "LLVM ${TEGULA_LLVM_VERSION} is needed; ${LLVM_CONFIG} is of ${llvm_version}.\n${llvm_mend}")
endif()
llvm_ask(llvm_targets --targets-built)
if(NOT " ${llvm_targets} " MATCHES " NVPTX ")
	message(FATAL_ERROR "${LLVM_CONFIG}: this LLVM was built without the target NVPTX (it has ${llvm_targets}).\n${llvm_mend}")
endif()
llvm_ask(llvm_include --includedir)
llvm_ask(llvm_libdir --libdir)

add_library(tegula_llvm INTERFACE)
target_include_directories(tegula_llvm SYSTEM INTERFACE ${llvm_include})
if(TEGULA_STATIC_LLVM)
	llvm_ask(llvm_libs --link-static --libs nvptx passes orcjit native)
	separate_arguments(llvm_libs UNIX_COMMAND "${llvm_libs}")
	find_program(LLVM_LLD NAMES ld.lld-${TEGULA_LLVM_VERSION} ld.lld lld-${TEGULA_LLVM_VERSION}
		HINTS /usr/lib/llvm-${TEGULA_LLVM_VERSION}/bin)
	if(LLVM_LLD)
		target_link_options(tegula_llvm INTERFACE -fuse-ld=lld -Wl,--icf=all)
	endif()
	if(APPLE)
		target_link_options(tegula_llvm INTERFACE -Wl,-dead_strip)
		target_link_libraries(tegula_llvm INTERFACE -L${llvm_libdir} ${llvm_libs} c++)
	else()
		target_link_options(tegula_llvm INTERFACE -Wl,--gc-sections -Wl,-s -static-libgcc)
		target_link_libraries(tegula_llvm INTERFACE -L${llvm_libdir} -Wl,--start-group ${llvm_libs} -Wl,--end-group
			-Wl,-Bstatic -lstdc++ -Wl,-Bdynamic)
	endif()
	find_library(LLVM_Z NAMES libz.a)
	find_library(LLVM_ZSTD NAMES libzstd.a)
	if(LLVM_Z AND LLVM_ZSTD)
		target_link_libraries(tegula_llvm INTERFACE ${LLVM_Z} ${LLVM_ZSTD})
	else()
		add_library(tegula_unreached STATIC ${CMAKE_SOURCE_DIR}/cmake/unreached.c)
		set_target_properties(tegula_unreached PROPERTIES POSITION_INDEPENDENT_CODE ON)
		target_link_libraries(tegula_llvm INTERFACE tegula_unreached)
	endif()
else()
	# Opened at run time, when code is first made (compiler/emit/llvm/llvm_api.h): a macro for each row of the table.
	llvm_ask(llvm_name --link-shared --libnames)
	string(REGEX REPLACE " .*" "" llvm_name "${llvm_name}")
	file(REAL_PATH ${llvm_libdir}/${llvm_name} llvm_file)
	set(llvm_rows ${CMAKE_SOURCE_DIR}/compiler/emit/llvm/llvm_api.def)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${llvm_rows})
	file(STRINGS ${llvm_rows} rows REGEX "^LLVM[(]")
	list(TRANSFORM rows REPLACE "LLVM[(](.*)[)]" "#define \\1 llvm_api.\\1\n")
	string(CONCAT llvm_names ${rows})
	file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/llvm_api_names.h CONTENT "${llvm_names}")
	target_compile_definitions(tegula_llvm INTERFACE TEGULA_LLVM_LIBRARY="${llvm_file}")
	set(llvm_libs)
endif()
# What a user of the archive adds to a link line (tegula.pc).
if(llvm_libs)
	set(TEGULA_LLVM_LIBS "-L${llvm_libdir} ${llvm_libs}")
	string(REPLACE ";" " " TEGULA_LLVM_LIBS "${TEGULA_LLVM_LIBS}")
else()
	set(TEGULA_LLVM_LIBS "-ldl")
endif()
