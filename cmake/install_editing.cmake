# Completion of three shells and the manual's pages, where each looks for them, as the program itself makes them. Run at
# install time, with TROUPE_PROGRAM.
set(prefix "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
# Debian's zsh looks at packages' completions there, and at /usr/local's.
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(zsh share/zsh/vendor-completions)
else()
  set(zsh share/zsh/site-functions)
endif()
foreach(place bash:share/bash-completion/completions/troupe zsh:${zsh}/_troupe
    fish:share/fish/vendor_completions.d/troupe.fish)
  string(REGEX MATCH "^([a-z]+):(.*)$" unused "${place}")
  set(shell "${CMAKE_MATCH_1}")
  set(file "${prefix}/${CMAKE_MATCH_2}")
  get_filename_component(folder "${file}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  execute_process(COMMAND "${TROUPE_PROGRAM}" completion ${shell} OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${CMAKE_INSTALL_PREFIX}/${CMAKE_MATCH_2}")
endforeach()
execute_process(COMMAND "${TROUPE_PROGRAM}" man "${prefix}/share/man" COMMAND_ERROR_IS_FATAL ANY)
