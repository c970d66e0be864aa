# The Python package: one extension module by the stable ABI of CPython 3.10, which holds the library.  Everything but its
# init function is hidden.  `python/tegula` with the module beside it is the package; build/*/python is such a folder, for
# the tests, and pyproject.toml makes a wheel of it: `cmake --install` installs it with --component python alone.
find_package(Python3 3.10 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python3_Development.Module_FOUND OR TEGULA_SANITIZE)
	message(STATUS "No headers of Python 3.10 or later, or a build with sanitizers: the Python package is left out")
	return()
endif()
file(GLOB PYTHON_SOURCES CONFIGURE_DEPENDS python/src/*.c)
file(GLOB_RECURSE PYTHON_FILES CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR}/python python/tegula/*.py python/tegula/*.tgl)
Python3_add_library(tegula_python MODULE ${PYTHON_SOURCES})
set(python_dir ${CMAKE_BINARY_DIR}/python/tegula)
set_target_properties(tegula_python PROPERTIES OUTPUT_NAME _tegula PREFIX "" SUFFIX .abi3.so
	LIBRARY_OUTPUT_DIRECTORY ${python_dir} C_VISIBILITY_PRESET hidden)
target_link_libraries(tegula_python PRIVATE tegula_lib)
set_source_files_properties(${PYTHON_SOURCES} PROPERTIES COMPILE_OPTIONS "-Wno-pedantic;-Wno-missing-prototypes")
if(NOT APPLE)
	target_link_options(tegula_python PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/python.map -Wl,-z,defs
		-Wl,--gc-sections -Wl,--unresolved-symbols=ignore-in-object-files)
	set_target_properties(tegula_python PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/python.map)
endif()
set(copied)
foreach(f ${PYTHON_FILES})
	add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/python/${f} DEPENDS ${CMAKE_SOURCE_DIR}/python/${f}
		COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_SOURCE_DIR}/python/${f} ${CMAKE_BINARY_DIR}/python/${f} VERBATIM)
	list(APPEND copied ${CMAKE_BINARY_DIR}/python/${f})
	get_filename_component(folder ${f} DIRECTORY)
	install(FILES python/${f} DESTINATION ${folder} COMPONENT python EXCLUDE_FROM_ALL)
endforeach()
add_custom_target(python_files ALL DEPENDS ${copied})
install(TARGETS tegula_python LIBRARY DESTINATION tegula COMPONENT python EXCLUDE_FROM_ALL)
script_test(python python tests/python/run ${CMAKE_BINARY_DIR}/python)
script_test(python/kernels kernels $<TARGET_FILE:tegula> check python/tegula/nn.tgl)
script_test(python/simt simt $<TARGET_FILE:tegula> check --device=simt:sm_90a python/tegula/nn.tgl)
