# LibTorch from the project's .venv, or as it lies in an installed troupe (or -DTROUPE_TORCH=<folder of the torch package>).
# The packaged TorchConfig.cmake wants a CUDA toolkit; the CPU library needs only libcudart and
# libcupti beside it. Headers go in by -idirafter: Torch's include folder ships its own fmt and
# pybind11, and the system's must win.
set(TROUPE_TORCH "" CACHE PATH "folder of the torch package; empty: the one in .venv")
set(_torch "${TROUPE_TORCH}")
if(NOT _torch)
  get_filename_component(_torch ${CMAKE_CURRENT_LIST_DIR}/../../troupe/torch ABSOLUTE)  # lib/cmake/troupe -> lib/troupe
endif()
if(NOT EXISTS ${_torch})
  file(GLOB _torch ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch)
endif()
find_library(LIBTORCH_CPU torch_cpu PATHS ${_torch}/lib NO_DEFAULT_PATH)
find_library(LIBTORCH_C10 c10 PATHS ${_torch}/lib NO_DEFAULT_PATH)
# Of a build for CUDA; what only libtroupe_cuda.so links.
find_library(LIBTORCH_CUDA_LIBRARY torch_cuda PATHS ${_torch}/lib NO_DEFAULT_PATH)
find_library(LIBTORCH_C10_CUDA c10_cuda PATHS ${_torch}/lib NO_DEFAULT_PATH)
find_library(LIBTORCH_CUDART NAMES libcudart.so.13 libcudart.so PATHS ${_torch}/../nvidia/cu13/lib ${_torch}/lib NO_DEFAULT_PATH)
if(EXISTS ${_torch}/version.py)
  file(STRINGS ${_torch}/version.py _lines REGEX "^(__version__|cuda)")
  string(REGEX MATCH "__version__ = '([^']*)'" _match "${_lines}")
  set(LIBTORCH_VERSION "${CMAKE_MATCH_1}")
  string(REGEX MATCH "cuda: [^=]*= '([^']*)'" _match "${_lines}")
  set(LIBTORCH_CUDA "${CMAKE_MATCH_1}")  # empty: a CPU build
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LIBTORCH_CPU LIBTORCH_C10
  REASON_FAILURE_MESSAGE "run `make setup`, which installs it into .venv")
if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  file(GLOB _cuda_libs ${_torch}/../nvidia/cu13/lib ${_torch}/../nvidia/cuda_runtime/lib ${_torch}/../nvidia/cuda_cupti/lib)
  set(LIBTORCH_FOLDER ${_torch} CACHE INTERNAL "")
  set(LIBTORCH_RPATH ${_torch}/lib ${_cuda_libs} CACHE INTERNAL "")
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  target_compile_options(LibTorch::LibTorch INTERFACE
    "SHELL:-idirafter ${_torch}/include" "SHELL:-idirafter ${_torch}/include/torch/csrc/api/include")
  target_link_libraries(LibTorch::LibTorch INTERFACE ${LIBTORCH_CPU} ${LIBTORCH_C10})
  # Only for the linker: at run time LibTorch's libraries know where theirs are, and CMake writes the way to LibTorch.
  foreach(_dir IN LISTS LIBTORCH_RPATH)
    target_link_options(LibTorch::LibTorch INTERFACE "LINKER:-rpath-link,${_dir}")
  endforeach()
endif()
