# Run by cpack between installing the groups of package.cmake and packing them: adds what Debian wants in every package
# (licences, changelog, what lintian may overlook), packs the manual, and gives every file one date and plain permissions.
cmake_policy(VERSION 3.25)
set(debian ${CPACK_TROUPE_SOURCE_DIR}/cmake/debian)
set(version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})
set(maintainer ${CPACK_PACKAGE_CONTACT})
string(TIMESTAMP year "%Y" UTC)
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # of SOURCE_DATE_EPOCH

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Headers whose code is in our programs and that no library package brings: their licences.
set(headers libcli11-dev nlohmann-json3-dev libexpected-dev libboost-dev libxxhash-dev)

# Troupe's own terms: the file of the source tree that states them, or that there is none.
set(terms " The sources that this package was built from state no licence. Ask their\n authors before you pass it on.")
foreach(file LICENSE LICENSE.txt LICENSE.md COPYING)
  if(EXISTS ${CPACK_TROUPE_SOURCE_DIR}/${file})
    file(STRINGS ${CPACK_TROUPE_SOURCE_DIR}/${file} lines)
    list(TRANSFORM lines PREPEND " ")
    list(TRANSFORM lines REPLACE "^ *$" " .")
    list(JOIN lines "\n" terms)
    break()
  endif()
endforeach()

foreach(group IN LISTS CPACK_TROUPE_GROUPS)
  string(TOUPPER ${group} upper)
  set(package ${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${group})
  set(doc ${root}/usr/share/doc/${package})
  if(NOT IS_DIRECTORY ${root})
    message(FATAL_ERROR "packages: wanted the files of ${package} in ${root}, got no such folder")
  endif()
  file(MAKE_DIRECTORY ${doc})
  configure_file(${debian}/${package}.copyright.in ${doc}/copyright @ONLY)
  configure_file(${debian}/changelog.in ${doc}/changelog.Debian @ONLY)
  run(gzip -9n ${doc}/changelog.Debian)
  if(EXISTS ${debian}/${package}.lintian-overrides)
    file(MAKE_DIRECTORY ${root}/usr/share/lintian/overrides)
    configure_file(${debian}/${package}.lintian-overrides ${root}/usr/share/lintian/overrides/${package} COPYONLY)
  endif()
  if(group MATCHES "^(base|train)$")
    foreach(header IN LISTS headers)
      file(REAL_PATH /usr/share/doc/${header}/copyright licence)
      if(NOT EXISTS ${licence})
        message(FATAL_ERROR "packages: wanted ${header}'s licence, got no file ${licence}")
      endif()
      configure_file(${licence} ${doc}/third-party/${header} COPYONLY)
    endforeach()
  endif()
endforeach()

set(base ${CPACK_TEMPORARY_DIRECTORY}/base/usr/share)
file(GLOB_RECURSE pages ${base}/man/*)
run(gzip -9n ${pages})
# Where Debian's zsh looks, whatever prefix the files were laid out under.
if(EXISTS ${base}/zsh/site-functions)
  file(RENAME ${base}/zsh/site-functions ${base}/zsh/vendor-completions)
endif()
# Where those look who know Debian rather than Troupe.
foreach(folder examples docs)
  file(CREATE_LINK ../../troupe/${folder} ${base}/doc/troupe/${folder} SYMBOLIC)
endforeach()
file(RENAME ${CPACK_TEMPORARY_DIRECTORY}/train/usr/share/troupe/torch-licences
  ${CPACK_TEMPORARY_DIRECTORY}/train/usr/share/doc/troupe-train/torch-licences)
file(REMOVE ${CPACK_TEMPORARY_DIRECTORY}/train/usr/share/troupe)

run(find ${CPACK_TEMPORARY_DIRECTORY} -type d -exec chmod 755 {} +)
run(find ${CPACK_TEMPORARY_DIRECTORY} -type f -exec chmod a+r,u+w,go-w {} +)
# Libraries are read, not executed.
file(GLOB libraries ${CPACK_TEMPORARY_DIRECTORY}/train/usr/lib ${CPACK_TEMPORARY_DIRECTORY}/cuda/usr/lib)
run(find ${libraries} -type f -exec chmod 644 {} +)
run(chmod 755 ${base}/troupe/examples/slurm/job.sh ${base}/troupe/examples/smollm2.sh)
run(find ${CPACK_TEMPORARY_DIRECTORY} -exec touch -h -d @$ENV{SOURCE_DATE_EPOCH} {} +)
