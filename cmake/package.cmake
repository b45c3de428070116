# Debian packages (`make package`) of the components that install.cmake installs:
#   troupe        command              no LibTorch
#   troupe-train  training             LibTorch; of the very version of troupe, which executes its programs
#   troupe-dev    sdk, torch-headers   what a project that finds troupe is built with
#   troupe-cuda   cuda                 where there is nvcc: libtroupe_cuda.so and LibTorch's libraries for CUDA
# Here: what stands in their control files. package_files.cmake lays out what Debian wants beside our files, package_date.cmake
# gives everything one date. Libraries that are needed are found by dpkg-shlibdeps.
#
# The version is the project's. A minor version may change plans, manifests and installed headers, a patch none of them; the
# number behind the dash counts packages of the same sources.
set(TROUPE_MAINTAINER "Troupe maintainers <maintainers@example.com>" CACHE STRING "who answers for the packages: name and address")
set(TROUPE_HOMEPAGE "" CACHE STRING "where the project is found; empty: the packages do not say")
set(TROUPE_PACKAGE_REVISION 1 CACHE STRING "counts packages of the same sources")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT ${TROUPE_MAINTAINER})
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)  # the programs; LibTorch stays to the byte what PyPI ships
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_CURRENT_LIST_DIR}/package_date.cmake)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_CURRENT_LIST_DIR}/package_files.cmake)
set(CPACK_TROUPE_SOURCE_DIR ${CMAKE_SOURCE_DIR})  # for these two

set(CPACK_COMPONENTS_ALL command training sdk torch-headers)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENT_COMMAND_GROUP base)
set(CPACK_COMPONENT_TRAINING_GROUP train)
set(CPACK_COMPONENT_SDK_GROUP dev)
set(CPACK_COMPONENT_TORCH-HEADERS_GROUP dev)

set(CPACK_TROUPE_GROUPS base train dev)
if(TARGET troupe_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda)
  list(APPEND CPACK_TROUPE_GROUPS cuda)
  set(CPACK_COMPONENT_CUDA_GROUP cuda)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE gzip)  # LibTorch in seconds, where xz takes minutes for a third less
set(CPACK_DEBIAN_PACKAGE_RELEASE ${TROUPE_PACKAGE_REVISION})
set(CPACK_DEBIAN_PACKAGE_SOURCE troupe)
set(CPACK_DEBIAN_PACKAGE_HOMEPAGE ${TROUPE_HOMEPAGE})
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${LIBTORCH_RPATH})
set(same "(= ${PROJECT_VERSION}-${TROUPE_PACKAGE_REVISION})")

set(CPACK_DEBIAN_BASE_PACKAGE_NAME troupe)
set(CPACK_DEBIAN_BASE_PACKAGE_SECTION science)
set(CPACK_DEBIAN_BASE_PACKAGE_SUGGESTS "troupe-train ${same}, dict-gcide")
set(CPACK_DEBIAN_BASE_DESCRIPTION "training of transformer models, planned step by step
Troupe trains transformer models whose states are cut over ranks, from a
YAML file with DeepSpeed's keys and with one command. A training step is a
plan before it is done: the same plan is proved, run, timed and drawn.

This package has the command troupe, which plans and explains runs, checks
configurations, reads, converts, reshapes and compares checkpoints
(Troupe's, DeepSpeed's, Hugging Face's), compresses models and examines
machines, with its manual, completions for shells and examples. To train,
install troupe-train as well.")

set(CPACK_DEBIAN_TRAIN_PACKAGE_NAME troupe-train)
set(CPACK_DEBIAN_TRAIN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_TRAIN_PACKAGE_DEPENDS "troupe ${same}")
set(CPACK_DEBIAN_TRAIN_PACKAGE_SUGGESTS "dict-gcide, openssh-client")
set(CPACK_DEBIAN_TRAIN_DESCRIPTION "training of transformer models, planned step by step - training
Troupe trains transformer models whose states are cut over ranks, from a
YAML file with DeepSpeed's keys and with one command.

This package has what troupe executes to train and to speak with other
machines of a job, and LibTorch as PyPI ships it, in a folder of its own.")

# A project is built with what the package file looks for: the lines of packages.txt that begin with a plus.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/packages.txt lines REGEX "^[+]")
set(libraries "troupe-train ${same}")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^[+]([^ ]+) .*" "\\1" package "${line}")
  list(APPEND libraries ${package})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/packages.txt)
list(REMOVE_DUPLICATES libraries)
list(JOIN libraries ", " CPACK_DEBIAN_DEV_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME troupe-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)  # nothing in it is executed
set(CPACK_DEBIAN_DEV_DESCRIPTION "training of transformer models, planned step by step - development
Troupe trains transformer models whose states are cut over ranks.

This package has its headers, its static libraries, LibTorch's headers and
the package file with which CMake's find_package(troupe) finds them: for
programs that train modules of their own, or read and write checkpoints.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME troupe-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
set(CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS "troupe-train ${same}, libc6 (>= 2.34), libgcc-s1 (>= 4.2), libstdc++6 (>= 12)")
set(CPACK_DEBIAN_CUDA_PACKAGE_SUGGESTS "python3-pip")  # brings NVIDIA's libraries
set(CPACK_DEBIAN_CUDA_PACKAGE_SHLIBDEPS OFF)  # NVIDIA's libraries are in no package of Debian's; the others as of troupe-train
set(CPACK_DEBIAN_CUDA_DESCRIPTION "training of transformer models, planned step by step - NVIDIA GPUs
Troupe trains transformer models whose states are cut over ranks, from a
YAML file with DeepSpeed's keys and with one command.

This package has what a job with device: cuda loads: Troupe's kernels for
GPUs of compute capability 8.0 and later, and LibTorch's libraries for CUDA
as PyPI ships them. It needs NVIDIA's driver of release 580 or later, and
NVIDIA's libraries: those that the system lacks are brought by the command
that troupe doctor names.")

include(CPack)
