# Read by cpack before all else: SOURCE_DATE_EPOCH, the date of everything in the packages, where the environment has none,
# so that the same sources give the same bytes. The date of the last commit; without a history, of CMakeLists.txt.
if("$ENV{SOURCE_DATE_EPOCH}" STREQUAL "")
  execute_process(COMMAND git -C ${CPACK_TROUPE_SOURCE_DIR} log -1 --format=%ct OUTPUT_VARIABLE date ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT date MATCHES "^[0-9]+$")
    file(TIMESTAMP ${CPACK_TROUPE_SOURCE_DIR}/CMakeLists.txt date %s UTC)
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${date})
endif()
