# What `cmake --install` writes, and where. Everything refers to everything else relative to itself, so that the tree may
# be moved and needs neither this checkout nor .venv.
#   bin/troupe                                                  component command
#   share/troupe/            examples, their schema, docs       component command
#   share/man/, share/*/     manual, completions of shells      component command
#   bin/troupe-train, bin/troupe-agent                          component training
#   lib/troupe/torch/lib/    LibTorch and what it links         component training
#   share/troupe/torch-licences/                                component training
#   lib/troupe/              libtroupe_cuda.so, where built     component cuda
#   lib/troupe/torch/lib/    LibTorch's libraries for CUDA      component cuda
#   share/troupe/            requirements-cuda.txt              component cuda
#   include/troupe/, lib/*.a, lib/cmake/troupe/                 component sdk
#   lib/troupe/torch/include/  for hosts that see tensors       component torch-headers
# package.cmake makes Debian packages of the same components.
include(CMakePackageConfigHelpers)
get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)

add_library(troupe_all INTERFACE)
target_link_libraries(troupe_all INTERFACE ${libraries})
set_target_properties(troupe_all PROPERTIES EXPORT_NAME troupe)
add_custom_target(troupe-sdk DEPENDS ${libraries})

install(TARGETS ${libraries} troupe_all EXPORT troupe ARCHIVE DESTINATION lib COMPONENT sdk
  INCLUDES DESTINATION include/troupe)
install(EXPORT troupe NAMESPACE troupe:: FILE troupe-targets.cmake DESTINATION lib/cmake/troupe COMPONENT sdk)
configure_package_config_file(cmake/troupe-config.cmake.in ${CMAKE_BINARY_DIR}/troupe-config.cmake
  INSTALL_DESTINATION lib/cmake/troupe)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/troupe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/troupe-config.cmake ${CMAKE_BINARY_DIR}/troupe-config-version.cmake
  cmake/dependencies.cmake cmake/FindCAF.cmake cmake/FindLibTorch.cmake
  DESTINATION lib/cmake/troupe COMPONENT sdk)
install(CODE "set(TROUPE_SOURCE_DIR \"${CMAKE_SOURCE_DIR}\")" COMPONENT sdk)
install(SCRIPT cmake/install_headers.cmake COMPONENT sdk)

install(TARGETS troupe RUNTIME DESTINATION bin COMPONENT command)
install(DIRECTORY examples DESTINATION share/troupe COMPONENT command)
install(CODE "set(TROUPE_PROGRAM \"$<TARGET_FILE:troupe>\")" COMPONENT command)
install(SCRIPT cmake/install_editing.cmake COMPONENT command)
install(DIRECTORY docs DESTINATION share/troupe COMPONENT command FILES_MATCHING PATTERN "*.md")

install(TARGETS troupe-train troupe-agent RUNTIME DESTINATION bin COMPONENT training)
set_target_properties(troupe-train PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/troupe/torch/lib")
install(CODE "set(TROUPE_TORCH_LIBRARIES \"${LIBTORCH_CPU};${LIBTORCH_C10}\")
set(TROUPE_TORCH_FOLDERS \"${LIBTORCH_RPATH}\")" COMPONENT training)
install(SCRIPT cmake/install_torch.cmake COMPONENT training)
install(DIRECTORY ${LIBTORCH_FOLDER}/include DESTINATION lib/troupe/torch COMPONENT torch-headers)
# The licences of LibTorch and of the two libraries of NVIDIA's that it links, by what they are of.
foreach(name torch nvidia_cuda_runtime nvidia_cuda_cupti)
  file(GLOB licences ${LIBTORCH_FOLDER}/../${name}-*.dist-info/LICENSE* ${LIBTORCH_FOLDER}/../${name}-*.dist-info/NOTICE
    ${LIBTORCH_FOLDER}/../${name}-*.dist-info/[Ll]icense*.txt ${LIBTORCH_FOLDER}/../${name}-*.dist-info/licenses/*)
  install(FILES ${licences} DESTINATION share/troupe/torch-licences/${name} COMPONENT training)
endforeach()

# What libtroupe_cuda.so needs beyond that is NVIDIA's, and whoever has a GPU installs it: requirements-cuda.txt without the
# compiler. A tree where nobody has built the library is installed without it.
if(TARGET troupe_cuda)
  install(TARGETS troupe_cuda LIBRARY DESTINATION lib/troupe COMPONENT cuda OPTIONAL)
  file(READ requirements-cuda.txt requirements)
  string(REGEX REPLACE "# brings nvcc.*" "" requirements "${requirements}")
  string(REGEX REPLACE "^(#[^\n]*\n)*# brings" "# NVIDIA's libraries that LibTorch for CUDA needs, in the versions that its wheel names.\n# brings"
    requirements "${requirements}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/requirements-cuda.txt CONTENT "${requirements}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS requirements-cuda.txt)
  get_filename_component(nvshmem ${LIBTORCH_CUDA_LIBRARY} DIRECTORY)
  install(CODE "if(EXISTS \"$<TARGET_FILE:troupe_cuda>\")
  file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/troupe/torch/lib\" TYPE SHARED_LIBRARY
    FILES \"${LIBTORCH_CUDA_LIBRARY}\" \"${LIBTORCH_C10_CUDA}\" \"${nvshmem}/libtorch_nvshmem.so\")
  file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/share/troupe\" TYPE FILE
    FILES \"${CMAKE_BINARY_DIR}/cuda/requirements-cuda.txt\")
endif()" COMPONENT cuda)
endif()
include(package)
