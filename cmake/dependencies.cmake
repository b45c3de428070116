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
  set(wanted QUIET)
  if(TROUPE_CUDA)
    set(wanted REQUIRED)
  endif()
  find_package(CUDAToolkit ${wanted})  # NVIDIA's, of no Debian package
endif()
