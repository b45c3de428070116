# Headers of outside libraries that most sources read, parsed once. Nobody may lean on them: every file includes what it
# needs and compiles with TROUPE_PRECOMPILE=OFF, which the presets fuzz and tidy set (so `make tidy` proves it).
#   library      the standard library and fmt, for what goes into archives
#   program      the same, for what is linked into programs
#   test         with Boost.Test
#   torch        library, with LibTorch's tensor and what each operation's header reads. Nothing beyond: each header more
#                costs the files that need it not
#   actors       library, with CAF
#   torch_test, actors_test   test, with the same
# A precompiled header is good only for a compiler with the same flags: troupe_options gives them, and here is the rest.
option(TROUPE_PRECOMPILE "precompile the headers of outside libraries" ON)
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(TROUPE_PRECOMPILE OFF)
endif()

set(precompiled_library
  <algorithm> <array> <atomic> <charconv> <chrono> <cmath> <cstdint> <cstdio> <cstring> <deque> <filesystem> <functional>
  <map> <memory> <mutex> <numeric> <optional> <set> <span> <string> <string_view> <system_error> <tuple> <unordered_map>
  <utility> <variant> <vector> <fmt/format.h> <tl/expected.hpp>)
set(precompiled_test ${precompiled_library} <cstdlib> <fstream> <random> <sstream> <thread> <boost/test/unit_test.hpp>)
set(precompiled_torch <ATen/core/Tensor.h> <ATen/core/grad_mode.h> <ATen/ops/empty.h>)

# One target each, of which others take the header. It is made when the first one asks for it.
function(troupe_precompiled_target kind)
  if(TARGET troupe_precompiled_${kind})
    return()
  endif()
  set(target troupe_precompiled_${kind})
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${kind}.cpp CONTENT "")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${kind}.cpp)
  target_link_libraries(${target} PRIVATE troupe_options)
  if(kind MATCHES "test$")
    set(headers ${precompiled_test})
    troupe_test_options(${target})
  else()
    set(headers ${precompiled_library})
    if(TROUPE_HARDENED)
      target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
    endif()
  endif()
  if(kind MATCHES "^torch")
    list(APPEND headers ${precompiled_torch})
    target_link_libraries(${target} PRIVATE LibTorch::LibTorch)
  endif()
  if(kind MATCHES "^actors")
    list(APPEND headers <caf/all.hpp>)
    target_link_libraries(${target} PRIVATE CAF::core)
  endif()
  if(kind MATCHES "test$|program")  # as CMake compiles what is linked into programs
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIE)
  endif()
  target_precompile_headers(${target} PRIVATE ${headers})
endfunction()

# troupe_precompile(target kind)
function(troupe_precompile target kind)
  if(TROUPE_PRECOMPILE)
    troupe_precompiled_target(${kind})
    # GCC 12 sees strings overlap and end early where it reads std::string from a precompiled header, and not else.
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-array-bounds -Wno-stringop-overread
                                                     -Wno-stringop-overflow)
    target_precompile_headers(${target} REUSE_FROM troupe_precompiled_${kind})
  endif()
endfunction()
