# Run by `cmake --install`: copies LibTorch's libraries and those beside them that they need. What the system has stays
# the system's. They find each other by the $ORIGIN that LibTorch's libraries carry.
cmake_policy(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES LIBRARIES ${TROUPE_TORCH_LIBRARIES} DIRECTORIES ${TROUPE_TORCH_FOLDERS}
  RESOLVED_DEPENDENCIES_VAR resolved UNRESOLVED_DEPENDENCIES_VAR unresolved)
if(unresolved)
  message(FATAL_ERROR "install: LibTorch needs ${unresolved}, found neither beside it nor in the system")
endif()
set(needed ${TROUPE_TORCH_LIBRARIES})
foreach(library IN LISTS resolved)
  foreach(folder IN LISTS TROUPE_TORCH_FOLDERS)
    get_filename_component(real ${folder} REALPATH)
    if(library MATCHES "^(${folder}|${real})/")
      list(APPEND needed ${library})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES needed)
file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/lib/troupe/torch/lib" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN
  FILES ${needed})
