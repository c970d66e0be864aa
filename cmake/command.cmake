# The command as users get it: the binary, its man page and completions, which it prints itself.
include(GNUInstallDirs)
set(command_dir ${CMAKE_BINARY_DIR}/command)
file(MAKE_DIRECTORY ${command_dir})
add_custom_command(OUTPUT ${command_dir}/tegula ${command_dir}/_tegula ${command_dir}/tegula.1
	COMMAND sh -c "./tegula completion bash >command/tegula && ./tegula completion zsh >command/_tegula && ./tegula man >command/tegula.1"
	WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
	DEPENDS tegula VERBATIM)
add_custom_target(command ALL DEPENDS ${command_dir}/tegula.1)
install(TARGETS tegula RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(FILES ${command_dir}/tegula.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES ${command_dir}/tegula DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT command)
install(FILES ${command_dir}/_tegula DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT command)
