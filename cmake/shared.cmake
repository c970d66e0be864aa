# libtegula.so, for programs that open the library at run time (bench/peers does, from Python): `--target tegula_shared`, or
# -DTEGULA_SHARED=ON, which builds it with all else and installs it.
# Everything is compiled once more, position independent, and only tgl_ names are visible.  With TEGULA_STATIC_LLVM it holds
# LLVM too, but opens jansson and SQLite as shared libraries: the archives of distributions are not position independent.
option(TEGULA_SHARED "Build and install libtegula.so, too" OFF)
add_library(tegula_shared SHARED ${COMPILER_SOURCES} ${RUNTIME_SOURCES} ${GENERATED}
	${CMAKE_BINARY_DIR}/build_id.c)
set_target_properties(tegula_shared PROPERTIES OUTPUT_NAME tegula VERSION ${PROJECT_VERSION}
	SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
if(TEGULA_SHARED)
	install(TARGETS tegula_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
else()
	set_target_properties(tegula_shared PROPERTIES EXCLUDE_FROM_ALL ON)
endif()
get_target_property(shared_definitions tegula_lib COMPILE_DEFINITIONS)
if(shared_definitions)
	target_compile_definitions(tegula_shared PRIVATE ${shared_definitions})
endif()
if(NOT TEGULA_STATIC_LLVM)
	set(JANSSON_SHARED PkgConfig::JANSSON)
	set(SQLITE_SHARED PkgConfig::SQLITE)
endif()
target_link_libraries(tegula_shared PRIVATE tegula_flags tegula_llvm m ${CMAKE_DL_LIBS} Threads::Threads
	${JANSSON_SHARED} ${SQLITE_SHARED})
foreach(level ${LOOP_LEVELS})
	get_target_property(shared_definitions loops_${level} COMPILE_DEFINITIONS)
	get_target_property(shared_options loops_${level} COMPILE_OPTIONS)
	add_library(shared_loops_${level} OBJECT EXCLUDE_FROM_ALL ${LOOP_SOURCES})
	target_link_libraries(shared_loops_${level} PRIVATE tegula_flags)
	target_compile_definitions(shared_loops_${level} PRIVATE ${shared_definitions})
	target_compile_options(shared_loops_${level} PRIVATE ${shared_options})
	set_target_properties(shared_loops_${level} PROPERTIES POSITION_INDEPENDENT_CODE ON)
	target_sources(tegula_shared PRIVATE $<TARGET_OBJECTS:shared_loops_${level}>)
endforeach()
if(APPLE)
	target_link_options(tegula_shared PRIVATE "-Wl,-exported_symbol,_tgl_*")
else()
	target_link_options(tegula_shared PRIVATE -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/tegula.map
		$<$<NOT:$<BOOL:${TEGULA_SANITIZE}>>:-Wl,-z,defs>)
	set_target_properties(tegula_shared PROPERTIES LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/tegula.map)
endif()
