# Debian's CAF 0.17 ships no package file. Targets are named as later versions name them.
find_path(CAF_INCLUDE_DIR caf/all.hpp)
find_package(Threads REQUIRED)
foreach(component IN LISTS CAF_FIND_COMPONENTS)
  find_library(CAF_${component}_LIBRARY caf_${component})
  if(CAF_${component}_LIBRARY AND CAF_INCLUDE_DIR)
    set(CAF_${component}_FOUND TRUE)
    if(NOT TARGET CAF::${component})
      add_library(CAF::${component} UNKNOWN IMPORTED GLOBAL)
      set_target_properties(CAF::${component} PROPERTIES
        IMPORTED_LOCATION "${CAF_${component}_LIBRARY}"
        INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
        INTERFACE_LINK_LIBRARIES Threads::Threads
        # a message type without a type id becomes a compile error at its sender
        INTERFACE_COMPILE_DEFINITIONS CAF_ENABLE_TYPE_ID_CHECKS)
    endif()
  endif()
endforeach()
if(CAF_INCLUDE_DIR)
  file(STRINGS ${CAF_INCLUDE_DIR}/caf/config.hpp _line REGEX "^#define CAF_VERSION ")
  string(REGEX REPLACE "[^0-9]" "" _number "${_line}")  # 1706 is 0.17.6
  math(EXPR CAF_VERSION_MAJOR "${_number} / 10000")
  math(EXPR CAF_VERSION_MINOR "${_number} / 100 % 100")
  math(EXPR CAF_VERSION_PATCH "${_number} % 100")
  set(CAF_VERSION ${CAF_VERSION_MAJOR}.${CAF_VERSION_MINOR}.${CAF_VERSION_PATCH})
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION HANDLE_COMPONENTS)
