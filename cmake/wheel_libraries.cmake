# Run by `cmake --install` of component `wheel`: copies the shared libraries that the wheel's programs need and that not
# every Linux has (manylinux_2_36 names those that it has), and the licences of all that is bundled or linked in.
cmake_policy(VERSION 3.25)
# Of manylinux_2_36, and torch's, which lies beside the package.
set(outside "^ld-linux" "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s|z)\\.so" "^lib(torch_cpu|c10)\\.so")

function(copy_libraries into programs modules out)
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${programs} MODULES ${modules} PRE_EXCLUDE_REGEXES ${outside}
    RESOLVED_DEPENDENCIES_VAR resolved UNRESOLVED_DEPENDENCIES_VAR unresolved)
  if(unresolved)
    message(FATAL_ERROR "wheel: found no ${unresolved}")
  endif()
  file(MAKE_DIRECTORY ${into})
  foreach(library IN LISTS resolved)
    get_filename_component(name ${library} NAME)
    get_filename_component(real ${library} REALPATH)
    file(COPY_FILE ${real} ${into}/${name})
    message(STATUS "Installing: ${into}/${name}")
  endforeach()
  set(${out} ${${out}} ${resolved} PARENT_SCOPE)
endfunction()

# What is compiled or linked in, by the Debian package that it comes from.
file(GLOB boost RELATIVE /usr/share/doc /usr/share/doc/libboost1.*-dev)
set(packages ${boost} libcaf-dev libcli11-dev libexpected-dev libfmt-dev libhwy-dev liblz4-dev libpcre2-dev libre2-dev
  libsnappy-dev libssl-dev liburing-dev libutf8proc-dev libxxhash-dev libyaml-cpp-dev libzstd-dev nlohmann-json3-dev zlib1g-dev)
copy_libraries(${TROUPE_WHEEL_DATA}/libexec/troupe "${TROUPE_WHEEL_SCRIPT}" "" bundled)
copy_libraries(${CMAKE_INSTALL_PREFIX}/troupe/lib "${TROUPE_WHEEL_PROGRAMS}" "${TROUPE_WHEEL_MODULES}" bundled)

foreach(library IN LISTS bundled)
  get_filename_component(name ${library} NAME)
  execute_process(COMMAND dpkg-query -S "*/${name}" OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "^[^:,]+" owner "${owner}")
  list(APPEND packages ${owner})
endforeach()
list(REMOVE_DUPLICATES packages)
set(licences ${TROUPE_WHEEL_METADATA}/licenses/third-party)
foreach(package IN LISTS packages)
  file(REAL_PATH /usr/share/doc/${package}/copyright copyright)
  configure_file(${copyright} ${licences}/${package}.txt COPYONLY)
  file(STRINGS ${copyright} lines REGEX "/usr/share/common-licenses/")
  string(REGEX MATCHALL "/usr/share/common-licenses/[A-Za-z0-9]+(-[0-9.]*[0-9])?" named "${lines}")
  foreach(whole IN LISTS named)  # the texts that they name
    file(REAL_PATH ${whole} text)
    get_filename_component(name ${whole} NAME)
    configure_file(${text} ${licences}/common-licenses/${name}.txt COPYONLY)
  endforeach()
endforeach()
file(GLOB nanobind ${TROUPE_WHEEL_NANOBIND}/../../nanobind-*.dist-info/licenses/LICENSE)
configure_file(${nanobind} ${licences}/nanobind.txt COPYONLY)
