# The checker of Metal text (tests/msl): compiles it with clang as it goes, so that clang is wanted when tests run, not
# here.  Its kernels call back into the program.
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
	file(GLOB MSL_SOURCES CONFIGURE_DEPENDS tests/msl/*.c)
	add_executable(msl_check ${MSL_SOURCES})
	target_link_libraries(msl_check PRIVATE tegula_lib)
	set_target_properties(msl_check PROPERTIES ENABLE_EXPORTS ON)
	target_compile_definitions(msl_check PRIVATE MSL_INCLUDE="${CMAKE_SOURCE_DIR}/tests/msl/include")
	file(GLOB MSL_FACTS CONFIGURE_DEPENDS tests/msl/facts/*.metal)
	file(GLOB MSL_FAULTS CONFIGURE_DEPENDS tests/msl/faults/*.metal)
	script_test(metal/facts metal $<TARGET_FILE:msl_check> ${MSL_FACTS})
	script_test(metal/faults metal $<TARGET_FILE:msl_check> ${MSL_FAULTS})
	script_test(metal/host metal tests/msl/host/run $<TARGET_FILE:msl_check>)
endif()
