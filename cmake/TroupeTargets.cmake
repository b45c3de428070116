# troupe_library(name SOURCES ... [ALONE ...] PUBLIC ... PRIVATE ... [INTERNAL] [HOT] [PRECOMPILED kind])
#   one library per folder, target troupe::name. SOURCES are compiled in batches (unity.cmake): names in anonymous
#   namespaces are unique within a folder. ALONE: sources with options of their own, each compiled by itself.
#   INTERNAL: for our own programs, not installed. HOT: inner loops, where the standard library's checks of every index
#   cost more than 1 %. Without SOURCES: headers only. PRECOMPILED: of precompiled.cmake, `library` unless said.
# troupe_program(target)  what our programs have beside their libraries; they are cold
# troupe_tests(folder SOURCES ... [ALONE ...] DEPENDS ... [LABEL l] [PRECOMPILED kind] [ON_REQUEST])
#   one program per folder of tests/, one ctest entry per file; `test` is precompiled unless said. A subfolder with a
#   CMakeLists.txt has a program of its own, else its files are listed with the folder's. ON_REQUEST: no entries, and
#   built only where somebody names it
#
# In a test file the suite is named after the file: config/parse_test.cpp opens
# BOOST_AUTO_TEST_SUITE(parse) behind its includes and becomes the ctest entry config.parse. Its directives, helpers and
# cases stand within the suite: files are compiled in batches. ALONE: those with BOOST_FIXTURE_TEST_SUITE or options of
# their own.

add_library(troupe_options INTERFACE)
target_compile_features(troupe_options INTERFACE cxx_std_20)
# Our sources see a copy of tl/expected.hpp whose class is [[nodiscard]]: the compiler refuses a dropped core::result.
get_target_property(TROUPE_EXPECTED_DIRS tl::expected INTERFACE_INCLUDE_DIRECTORIES)
list(GET TROUPE_EXPECTED_DIRS 0 TROUPE_EXPECTED_DIRS)
file(READ ${TROUPE_EXPECTED_DIRS}/tl/expected.hpp TROUPE_EXPECTED)
string(REPLACE "class expected : private" "class [[nodiscard]] expected : private" TROUPE_NODISCARD "${TROUPE_EXPECTED}")
if(TROUPE_NODISCARD STREQUAL TROUPE_EXPECTED)
  message(FATAL_ERROR "${TROUPE_EXPECTED_DIRS}/tl/expected.hpp: wanted 'class expected : private', which is not there")
endif()
file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/nodiscard/tl/expected.hpp CONTENT "${TROUPE_NODISCARD}")
# Clang's -Wconversion looks into templates of headers that are not the system's.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_include_directories(troupe_options SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/nodiscard)
  target_include_directories(troupe_options INTERFACE ${CMAKE_SOURCE_DIR})
else()
  target_include_directories(troupe_options INTERFACE ${CMAKE_BINARY_DIR}/nodiscard ${CMAKE_SOURCE_DIR})
endif()
target_compile_definitions(troupe_options INTERFACE FMT_SHARED)  # Debian's fmt is; those who link it would say so alone
target_compile_options(troupe_options INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Werror
  -pthread
  -fno-math-errno      # lets sqrt vectorise
  -ffp-contract=off)   # the same bits from scalar twins whatever the target machine
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler tidies its memory at 1 GB instead of at 128 MB: 5 to 15 % of its time.
  target_compile_options(troupe_options INTERFACE --param=ggc-min-heapsize=524288)
  # A source of a batch is no header, so its types may have members of anonymous namespaces.
  target_compile_options(troupe_options INTERFACE -Wno-subobject-linkage)
endif()
# Hardening of our own sources where the compiler optimises and no sanitizer watches; tests/apps/hardening_test.cpp.
set(TROUPE_HARDENED OFF)
if(NOT TROUPE_SANITIZE AND NOT CMAKE_BUILD_TYPE MATCHES "^(Debug)?$")
  set(TROUPE_HARDENED ON)
  target_compile_options(troupe_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong)
  target_link_options(troupe_options INTERFACE LINKER:-z,relro,-z,now)
endif()
if(TROUPE_SANITIZE)
  # A check after which nothing follows compiles in two thirds of the time to half the bytes. Two checks are left out, a
  # quarter of the rest of the time: a null pointer that is followed ends in the address sanitizer anyway, and CAF 0.17
  # itself binds references through null pointers and casts pointers to a queue's end, which it never follows.
  set(sanitize -fsanitize=${TROUPE_SANITIZE})
  if(TROUPE_SANITIZE MATCHES undefined)
    list(APPEND sanitize -fno-sanitize-recover=undefined -fno-sanitize=null,vptr)
  endif()
  # GCC's own std::regex and the like seem uninitialised to it once the sanitizers' checks stand between.
  target_compile_options(troupe_options INTERFACE ${sanitize} -fno-omit-frame-pointer
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(troupe_options INTERFACE -fsanitize=${TROUPE_SANITIZE})
endif()

include(precompiled)
include(unity)

function(troupe_library name)
  cmake_parse_arguments(arg "INTERNAL;HOT" "PRECOMPILED" "SOURCES;ALONE;PUBLIC;PRIVATE" ${ARGN})
  set(scope INTERFACE)
  if(arg_SOURCES)
    set(scope PUBLIC)
    if(arg_HOT)
      set(sources ${arg_SOURCES})
    else()
      troupe_unity(sources troupe_${name} ${arg_SOURCES})
    endif()
    add_library(troupe_${name} STATIC ${sources} ${arg_ALONE})
    target_link_libraries(troupe_${name} PRIVATE ${arg_PRIVATE})
    if(TROUPE_HARDENED AND NOT arg_HOT)
      target_compile_definitions(troupe_${name} PRIVATE _GLIBCXX_ASSERTIONS)
    endif()
    if(arg_PRECOMPILED)
      troupe_precompile(troupe_${name} ${arg_PRECOMPILED})
    elseif(NOT arg_HOT)
      troupe_precompile(troupe_${name} library)
    endif()
  else()
    add_library(troupe_${name} INTERFACE)
  endif()
  add_library(troupe::${name} ALIAS troupe_${name})
  # Our warnings and flags end at our own sources: hosts get the language, not our taste.
  target_link_libraries(troupe_${name} ${scope} $<BUILD_INTERFACE:troupe_options> ${arg_PUBLIC})
  target_compile_features(troupe_${name} ${scope} cxx_std_20)
  set_target_properties(troupe_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON EXPORT_NAME ${name})
  if(NOT arg_INTERNAL)
    set_property(GLOBAL APPEND PROPERTY TROUPE_LIBRARIES troupe_${name})
  endif()
endfunction()

# troupe_cold(target [sources ...]): what a run passes through once; all of the target or some of its sources. Optimised
# less it is compiled in half the time. GCC then takes more for uninitialised than where it looks closer.
function(troupe_cold target)
  if(NOT CMAKE_BUILD_TYPE STREQUAL "Release" OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  set(options -Og -Wno-maybe-uninitialized)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${options}")
  else()
    target_compile_options(${target} PRIVATE ${options})
  endif()
endfunction()

function(troupe_program target)
  target_link_libraries(${target} PRIVATE troupe_options)
  if(TROUPE_HARDENED)
    target_compile_definitions(${target} PRIVATE _GLIBCXX_ASSERTIONS)
  endif()
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
  troupe_cold(${target})
  troupe_precompile(${target} program)
endfunction()

# What is linked into tests.
function(troupe_test_options target)
  target_link_libraries(${target} PRIVATE troupe_options Boost::unit_test_framework)
  target_compile_definitions(${target} PRIVATE BOOST_TEST_DYN_LINK)
  target_compile_options(${target} PRIVATE -Wno-unused-result)  # a test calls for an effect and checks the effect
  troupe_cold(${target})
endfunction()

# troupe_places(name value ...): where tests find programs, as tests/places.hpp declares the names. All are in one source,
# which troupe_write_places() makes behind the last call: it alone differs from clone to clone.
function(troupe_places)
  while(ARGN)
    list(POP_FRONT ARGN name value)
    set_property(GLOBAL APPEND_STRING PROPERTY TROUPE_PLACES "const char* const ${name} = \"${value}\";\n")
  endwhile()
endfunction()

function(troupe_write_places)
  get_property(places GLOBAL PROPERTY TROUPE_PLACES)
  set(file ${CMAKE_CURRENT_BINARY_DIR}/places.cpp)
  file(GENERATE OUTPUT ${file}
    CONTENT "#include \"tests/places.hpp\"\n\nnamespace troupe::places {\n${places}}  // namespace troupe::places\n")
  add_library(troupe_places STATIC ${file})
  target_link_libraries(troupe_places PRIVATE troupe_options)
endfunction()

# A test that hangs ends there. Sanitizers make some ten times slower.
set(test_seconds_max 900)
if(TROUPE_SANITIZE)
  set(test_seconds_max 3600)
endif()

function(troupe_tests folder)
  cmake_parse_arguments(arg "ON_REQUEST" "LABEL;PRECOMPILED" "SOURCES;ALONE;DEPENDS" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_PRECOMPILED)
    set(arg_PRECOMPILED test)
  endif()
  string(REPLACE "/" "_" target tests_${folder})
  file(GLOB_RECURSE on_disk RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  foreach(file IN LISTS on_disk)
    cmake_path(GET file PARENT_PATH place)
    if(place AND EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${place}/CMakeLists.txt)
      continue()
    endif()
    if(NOT file IN_LIST arg_SOURCES AND NOT file IN_LIST arg_ALONE)
      message(FATAL_ERROR "tests/${folder}/${file} is not listed in its CMakeLists.txt and would never run")
    endif()
  endforeach()
  if(NOT TARGET troupe_test_main)
    add_library(troupe_test_main OBJECT ${CMAKE_SOURCE_DIR}/tests/main.cpp)
    troupe_test_options(troupe_test_main)
  endif()
  troupe_unity(sources ${target} PRELUDE tests/suites.hpp ${arg_SOURCES})
  add_executable(${target} $<TARGET_OBJECTS:troupe_test_main> ${sources} ${arg_ALONE})
  troupe_test_options(${target})
  target_link_libraries(${target} PRIVATE ${arg_DEPENDS} troupe_places)
  troupe_precompile(${target} ${arg_PRECOMPILED})
  if(arg_ON_REQUEST)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  foreach(source IN LISTS arg_SOURCES arg_ALONE)
    get_filename_component(stem ${source} NAME_WE)
    if(stem MATCHES "_test$")
      string(REGEX REPLACE "_test$" "" suite ${stem})
      add_test(NAME ${folder}.${suite} COMMAND ${target} --run_test=${suite} --log_level=test_suite)
      set_tests_properties(${folder}.${suite} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${test_seconds_max})
    endif()
  endforeach()
endfunction()

# Tests of a folder once more, as on a processor without AVX-512: `name` is the entry's, `cases` is what --run_test takes.
function(troupe_tests_without_avx512 folder name cases)
  cmake_parse_arguments(arg "" "LABEL" "" ${ARGN})
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  string(REPLACE "/" "_" target tests_${folder})
  add_test(NAME ${folder}.${name}_without_avx512 COMMAND ${target} --run_test=${cases} --log_level=test_suite)
  set_tests_properties(${folder}.${name}_without_avx512 PROPERTIES
    LABELS ${arg_LABEL} TIMEOUT ${test_seconds_max} ENVIRONMENT "ATEN_CPU_CAPABILITY=avx2;ONEDNN_MAX_CPU_ISA=AVX2")
endfunction()
