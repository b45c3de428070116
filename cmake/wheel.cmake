# The Python wheel: the programs once more, linked from this build's objects for the places where pip puts them, and the
# extension modules. scikit-build-core (pyproject.toml) configures, builds `troupe-wheel` and installs component `wheel`.
#   bin/troupe                        the ELF itself; its libraries in libexec/troupe
#   site-packages/troupe/bin/         troupe-train, troupe-agent; their libraries in ../lib, torch beside the package
#   site-packages/troupe/lib/         libtroupe_cuda.so, where there is nvcc; torch finds NVIDIA's libraries
#   site-packages/troupe/_native.abi3.so, _training.abi3.so; the second with torch beside the package
#   share/troupe/examples
# What Debian has as an archive is linked into `troupe`; what else they need is copied by wheel_libraries.cmake.
if(NOT SKBUILD)  # an ordinary build
  return()
endif()
find_package(Python 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(Python_FOUND)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_STRIP_TRAILING_WHITESPACE
    OUTPUT_VARIABLE nanobind_DIR ERROR_QUIET)
  find_package(nanobind CONFIG QUIET)
endif()
if(NOT nanobind_FOUND)  # an earlier `make wheel` brought it, and it is gone
  message(STATUS "no wheel: wanted Python 3.11 or later with headers and nanobind, got none (make wheel)")
  return()
endif()

# The extra `train` names the torch of requirements.txt.
file(STRINGS requirements.txt pinned REGEX "^torch==")
string(REGEX MATCH "torch==[0-9.]+" pinned "${pinned}")
file(STRINGS pyproject.toml wanted REGEX "^train = ")
string(REGEX MATCH "torch==[0-9.]+" wanted "${wanted}")
if(NOT pinned STREQUAL wanted)
  message(FATAL_ERROR "pyproject.toml: the extra train wants ${wanted}, requirements.txt has ${pinned}")
endif()

# The extra `cuda` names what requirements-cuda.txt has, but for the compiler.
file(READ requirements-cuda.txt cuda)
string(REGEX REPLACE "# brings nvcc.*" "" cuda "${cuda}")
string(REGEX MATCHALL "nvidia-[a-z0-9-]+==[0-9.]+" cuda "${cuda}")
file(READ pyproject.toml wanted)
string(REGEX MATCH "\ncuda = [^]]*" wanted "${wanted}")
string(REGEX MATCHALL "nvidia-[a-z0-9-]+==[0-9.]+" wanted "${wanted}")
if(NOT cuda STREQUAL wanted)
  message(FATAL_ERROR "pyproject.toml: the extra cuda wants ${wanted}, requirements-cuda.txt has ${cuda}")
endif()

add_custom_target(troupe-wheel)

# An old-style RPATH: libraries find what they need themselves in the same folder. Those who need none are left out.
function(troupe_wheel_links target)
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags LINKER:--as-needed)
  set_target_properties(${target} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${ARGN}")
  add_dependencies(troupe-wheel ${target})
endfunction()

function(troupe_wheel_program program destination)
  set(target ${program}-of-wheel)
  add_executable(${target} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${program}>)
  get_target_property(libraries ${program} LINK_LIBRARIES)
  target_link_libraries(${target} PRIVATE ${libraries})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${program}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel-programs)
  troupe_wheel_links(${target} ${ARGN})
  install(TARGETS ${target} RUNTIME DESTINATION ${destination} COMPONENT wheel EXCLUDE_FROM_ALL)
endfunction()

troupe_wheel_program(troupe "${SKBUILD_SCRIPTS_DIR}" "$ORIGIN/../libexec/troupe")
troupe_wheel_program(troupe-train troupe/bin "$ORIGIN/../lib" "$ORIGIN/../../torch/lib")
troupe_wheel_program(troupe-agent troupe/bin "$ORIGIN/../lib")
set_target_properties(troupe-of-wheel PROPERTIES CXX_LINKER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/link_archives.sh)

if(TARGET troupe_cuda)
  add_library(troupe_cuda-of-wheel SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:troupe_cuda> $<TARGET_OBJECTS:troupe_kernels_cuda>)
  get_target_property(libraries troupe_cuda LINK_LIBRARIES)
  get_target_property(options troupe_cuda LINK_OPTIONS)
  target_link_libraries(troupe_cuda-of-wheel PRIVATE ${libraries})
  target_link_options(troupe_cuda-of-wheel PRIVATE ${options})
  set_target_properties(troupe_cuda-of-wheel PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME troupe_cuda
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/wheel-programs)
  troupe_wheel_links(troupe_cuda-of-wheel "$ORIGIN" "$ORIGIN/../../torch/lib" "$ORIGIN/../../nvidia/cu13/lib")
  install(TARGETS troupe_cuda-of-wheel LIBRARY DESTINATION troupe/lib COMPONENT wheel EXCLUDE_FROM_ALL)
endif()

# troupe_wheel_module(target NAME name SOURCES sources LINKS libraries RPATH folders)
function(troupe_wheel_module target)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;LINKS;RPATH" ${ARGN})
  nanobind_add_module(${target}
    BACKEND_MODULE nanobind_backend STABLE_ABI_VERSION 3.11 PROTECT_STACK NB_SUPPRESS_WARNINGS ${arg_SOURCES})
  target_link_libraries(${target} PRIVATE troupe_options ${arg_LINKS} fmt::fmt)
  target_compile_definitions(${target} PRIVATE TROUPE_VERSION="${PROJECT_VERSION}" _GLIBCXX_ASSERTIONS)
  target_link_options(${target} PRIVATE LINKER:--exclude-libs,ALL)  # one name is anybody's: PyInit_NAME
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON OUTPUT_NAME ${arg_NAME})
  troupe_wheel_links(${target} ${arg_RPATH})
  install(TARGETS ${target} LIBRARY DESTINATION troupe COMPONENT wheel EXCLUDE_FROM_ALL)
endfunction()

set(shared apps/python/interruptible.cpp apps/python/python_error.cpp apps/python/tensor_types.cpp)
troupe_wheel_module(troupe-native NAME _native
  SOURCES apps/python/module.cpp apps/python/weights.cpp apps/python/conversions.cpp ${shared}
  LINKS troupe::checkpoint_command troupe::compress_command
  RPATH "$ORIGIN/lib")
# Loads LibTorch, so that Python imports it only when it trains.
troupe_wheel_module(troupe-training NAME _training
  SOURCES apps/python/training/module.cpp apps/python/training/python_session.cpp
    apps/python/training/python_values.cpp apps/python/training/session_kept_run.cpp
    apps/python/training/session_own_loop.cpp apps/python/training/session_states.cpp ${shared}
  LINKS troupe::python_session troupe::data
  RPATH "$ORIGIN/lib" "$ORIGIN/../torch/lib")

install(DIRECTORY examples DESTINATION "${SKBUILD_DATA_DIR}/share/troupe" COMPONENT wheel EXCLUDE_FROM_ALL)
install(CODE "set(TROUPE_WHEEL_SCRIPT \"$<TARGET_FILE:troupe-of-wheel>\")
set(TROUPE_WHEEL_PROGRAMS \"$<TARGET_FILE:troupe-train-of-wheel>;$<TARGET_FILE:troupe-agent-of-wheel>\")
set(TROUPE_WHEEL_MODULES \"$<TARGET_FILE:troupe-native>;$<TARGET_FILE:troupe-training>\")
set(TROUPE_WHEEL_NANOBIND \"${nanobind_DIR}\")
set(TROUPE_WHEEL_DATA \"${SKBUILD_DATA_DIR}\")
set(TROUPE_WHEEL_METADATA \"${SKBUILD_METADATA_DIR}\")" COMPONENT wheel EXCLUDE_FROM_ALL)
install(SCRIPT ${CMAKE_CURRENT_LIST_DIR}/wheel_libraries.cmake COMPONENT wheel EXCLUDE_FROM_ALL)
