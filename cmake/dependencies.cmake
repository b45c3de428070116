# Every outside library is found here and nowhere else. The Debian package that brings it
# stands in cmake/packages.txt, which `make setup` installs.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Boost REQUIRED COMPONENTS unit_test_framework)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(tl-expected REQUIRED)
find_package(rapidcheck REQUIRED)
find_package(benchmark REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)  # its .pc file would link the trainer too
find_package(CAF REQUIRED COMPONENTS core)
find_package(LibTorch REQUIRED)
