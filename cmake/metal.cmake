# The checker of Metal text (tests/msl): compiles it with clang as it goes, so that clang is wanted when tests run, not
# here.  Its kernels call back into the program.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
	file(GLOB MSL_SOURCES CONFIGURE_DEPENDS tests/msl/*.c)
	add_executable(msl_check ${MSL_SOURCES})
	target_link_libraries(msl_check PRIVATE tegula_lib)
	set_target_properties(msl_check PROPERTIES ENABLE_EXPORTS ON)
	target_compile_definitions(msl_check PRIVATE MSL_INCLUDE="${CMAKE_SOURCE_DIR}/tests/msl/include")
	# A stand-in for macOS's Objective-C runtime and Metal (tests/mock/objc.c), which runs kernels on the checker.
	set(checker block shadow source signature report library guard)
	list(TRANSFORM checker PREPEND tests/msl/)
	list(TRANSFORM checker APPEND .c)
	add_library(mock_objc SHARED tests/mock/objc.c ${checker} runtime/simt/fiber.c)
	set_target_properties(mock_objc PROPERTIES OUTPUT_NAME objc.A SUFFIX .dylib NO_SONAME ON
		LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/mock_objc)
	target_compile_definitions(mock_objc PRIVATE MSL_INCLUDE="${CMAKE_SOURCE_DIR}/tests/msl/include")
	target_link_libraries(mock_objc PRIVATE tegula_flags m ${CMAKE_DL_LIBS})
	file(GLOB MSL_FACTS CONFIGURE_DEPENDS tests/msl/facts/*.metal)
	file(GLOB MSL_FAULTS CONFIGURE_DEPENDS tests/msl/faults/*.metal)
	script_test(metal/facts metal $<TARGET_FILE:msl_check> ${MSL_FACTS})
	script_test(metal/faults metal $<TARGET_FILE:msl_check> ${MSL_FAULTS})
	foreach(part 0 1 2 3)	# every kernel at two sizes; the table of docs/metal.md says what comes out
		script_test(metal/kernels_${part} metal $<TARGET_FILE:msl_check> --kernels dsl_examples --part ${part}/4 --table docs/metal.md)
	endforeach()
	script_test(metal/own metal $<TARGET_FILE:msl_check> --kernels tests/msl/kernels)
	script_test(metal/matrix metal tests/matrix/run --device metal)
	script_test(metal/device metal tests/msl/device $<TARGET_FILE:tegula>)
	set_tests_properties(metal/device PROPERTIES ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/mock_objc;TEGULA_CACHE=off")
	# GPU code run on this machine, as the simt device runs it.
	set_tests_properties(metal/faults metal/kernels_0 metal/kernels_1 metal/kernels_2 metal/kernels_3 metal/own metal/matrix
		PROPERTIES LABELS "metal;simt")
	script_test(metal/host metal tests/msl/host/run $<TARGET_FILE:msl_check>)
	script_test(metal/command metal tests/msl/command $<TARGET_FILE:msl_check>)
endif()
script_test(metal/golden metal tests/msl/golden/run)
