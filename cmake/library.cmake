# The library as users get it: one header, libtegula.a, tegula.pc.  The archive holds one object in which only
# tgl_ names are visible, so that the compiler's own names (intern, text_put …) can't clash with a user's.
include(GNUInstallDirs)
set(installed_dir ${CMAKE_BINARY_DIR}/library)
file(MAKE_DIRECTORY ${installed_dir})
if(CMAKE_OBJCOPY AND NOT APPLE AND NOT TEGULA_SANITIZE)
	add_custom_command(OUTPUT ${installed_dir}/libtegula.a
		COMMAND ${CMAKE_LINKER} -r --whole-archive $<TARGET_FILE:tegula_lib> -o tegula.o
		COMMAND ${CMAKE_OBJCOPY} --wildcard "--keep-global-symbol=tgl_*" tegula.o
		COMMAND ${CMAKE_COMMAND} -E rm -f libtegula.a
		COMMAND ${CMAKE_AR} rcs libtegula.a tegula.o
		WORKING_DIRECTORY ${installed_dir}
		DEPENDS tegula_lib VERBATIM)
	add_custom_target(library ALL DEPENDS ${installed_dir}/libtegula.a)
	install(FILES ${installed_dir}/libtegula.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
else()
	install(TARGETS tegula_lib ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
install(FILES runtime/tgl.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
# tegula.pc finds the prefix from where it lies itself, so that an installed folder can be moved.
file(RELATIVE_PATH TEGULA_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
# Beside a shared library, what the archive needs is for those who ask with --static.
set(TEGULA_PC_LIBS "${TEGULA_LLVM_LIBS} -lm -pthread")
if(TEGULA_SHARED)
	set(TEGULA_PC_LIBS_PRIVATE "${TEGULA_PC_LIBS}")
	set(TEGULA_PC_PRIVATE .private)
	set(TEGULA_PC_LIBS)
endif()
configure_file(cmake/tegula.pc.in ${installed_dir}/tegula.pc @ONLY)
install(FILES ${installed_dir}/tegula.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
# find_package(tegula), which finds the prefix the same way.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
file(RELATIVE_PATH TEGULA_CMAKE_TO_PREFIX "/prefix/${package_dir}" "/prefix")
configure_file(cmake/tegula-config.cmake.in ${installed_dir}/tegula-config.cmake @ONLY)
write_basic_package_version_file(${installed_dir}/tegula-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${installed_dir}/tegula-config.cmake ${installed_dir}/tegula-config-version.cmake
	cmake/tegula_add_kernels.cmake DESTINATION ${package_dir} COMPONENT library)
