# Every outside library is found here and nowhere else. The Debian package that brings it
# stands in cmake/packages.txt, which `make setup` installs. An installed troupe reads this file too:
# what its static libraries still need is looked for again at the host's.
include(CMakeFindDependencyMacro)
macro(troupe_find)
  if(CMAKE_FIND_PACKAGE_NAME STREQUAL "troupe")
    find_dependency(${ARGV})  # as REQUIRED or QUIET as the host asked
  else()
    find_package(${ARGV} REQUIRED)
  endif()
endmacro()

# The libraries.
troupe_find(Threads)
troupe_find(PkgConfig)
troupe_find(yaml-cpp)
troupe_find(nlohmann_json)
troupe_find(fmt)
troupe_find(ZLIB)
troupe_find(tl-expected)
troupe_find(OpenSSL 3)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(snappy REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(re2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(liburing REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(hwloc REQUIRED IMPORTED_TARGET hwloc)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)  # its .pc file would link the trainer too
troupe_find(CAF COMPONENTS core)
troupe_find(LibTorch)

# The programs and the tests.
if(NOT CMAKE_FIND_PACKAGE_NAME STREQUAL "troupe")
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(Boost REQUIRED COMPONENTS headers unit_test_framework)
  find_package(rapidcheck REQUIRED)
  find_package(benchmark REQUIRED)
  find_program(VALGRIND_PROGRAM valgrind REQUIRED)
  find_package(CUDAToolkit QUIET)  # NVIDIA's, of no Debian package
  if(NOT TARGET CUDA::cudart_static AND LIBTORCH_CUDART)
    # NVIDIA's wheels have no libcudart.so, without which the module above finds nothing: the runtime beside LibTorch's.
    get_filename_component(_cudart ${LIBTORCH_CUDART} DIRECTORY)
    find_library(TROUPE_CUDART_STATIC cudart_static PATHS ${_cudart} NO_DEFAULT_PATH)
    if(TROUPE_CUDART_STATIC)
      add_library(CUDA::cudart_static STATIC IMPORTED)
      set_target_properties(CUDA::cudart_static PROPERTIES IMPORTED_LOCATION ${TROUPE_CUDART_STATIC}
        INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
      target_include_directories(CUDA::cudart_static SYSTEM INTERFACE ${_cudart}/../include)
    endif()
  endif()
  if(TROUPE_CUDA AND NOT TARGET CUDA::cudart_static)
    message(FATAL_ERROR "TROUPE_CUDA wants CUDA's static runtime; got no libcudart_static.a: run `make setup DEVICE=cuda`")
  endif()
endif()
