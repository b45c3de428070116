#!/bin/sh
# installed.sh PART SOURCE BUILD TORCH SCRATCH VERSION [FLAGS]: see installed.hpp. Says what failed and ends with 1, or ends
# with "everything ran". Where the system allows a mount namespace, SOURCE, BUILD and TORCH's environment are hidden while
# the project is built and run; where it does not, only the traces are looked for.
#   programs   installs everything, looks for traces, builds the programs that see no header of Torch's, runs the command
#   modules    installs what programs with modules of their own need, and builds these
set -eu
part=$1 source=$2 build=$3 torch=$4 scratch=$5 version=$6 flags=${7:-}
venv=$(cd "$torch/../../../.." && pwd)

die() {
  echo "installed: $*" >&2
  exit 1
}

# ---- install, and move
rm -rf "$scratch"
mkdir -p "$scratch"
install() {
  cmake --install "$build" --prefix "$scratch/first" "$@" >"$scratch/install.log" 2>&1 || die "$(tail -5 "$scratch/install.log")"
}
if [ "$part" = programs ]; then
  install
else
  for component in command training sdk torch-headers; do install --component "$component"; done
fi
mv "$scratch/first" "$scratch/moved"
prefix=$scratch/moved
cp -r "$prefix/share/troupe/examples/embedding" "$scratch/project"
# A further program with modules of its own.
cp "$source/apps/examples/own_model.cpp" "$scratch/project/"
# A further program for GPUs, where libtroupe_cuda.so is installed: it takes the library that it is linked with.
cat >"$scratch/project/on_gpu.cpp" <<'END'
#include <actors/session/session.hpp>
#include <config/load.hpp>
#include <cstdio>
int main(int, char** argv) {
  auto loaded = troupe::config::load(argv[1], {.overrides = {"device=cuda"}});
  if (!loaded) return 3;
  auto job = std::make_shared<const troupe::config::job_config>(std::move(loaded->config));
  const auto opened = troupe::actors::session::open(std::move(job));
  std::puts(opened ? "opened" : opened.error().text.c_str());
}
END
cat >>"$scratch/project/CMakeLists.txt" <<'END'
add_executable(own_model own_model.cpp)
target_link_libraries(own_model PRIVATE troupe::troupe)
add_test(NAME own_modules COMMAND own_model)
if(TARGET troupe::cuda)
  add_executable(on_gpu on_gpu.cpp)
  target_link_libraries(on_gpu PRIVATE troupe::actors troupe::cuda)
endif()
# Headers, whose parsing takes longer than all else, are parsed once for the programs that see them: those of the host's
# programs, and Torch's with them.
file(WRITE ${CMAKE_BINARY_DIR}/parsed.cpp "")
foreach(kind programs modules)
  add_library(parsed_by_${kind} OBJECT ${CMAKE_BINARY_DIR}/parsed.cpp)
endforeach()
target_link_libraries(parsed_by_programs PRIVATE troupe::actors troupe::sim)
target_precompile_headers(parsed_by_programs PRIVATE <actors/session/session.hpp> <actors/host.hpp> <sim/world.hpp>
  <config/load.hpp>)
target_link_libraries(parsed_by_modules PRIVATE troupe::troupe)
target_precompile_headers(parsed_by_modules PRIVATE <ATen/ATen.h> <torch/nn/modules/batchnorm.h>
  <torch/nn/modules/conv.h> <torch/nn/modules/dropout.h> <torch/nn/modules/embedding.h> <torch/nn/modules/linear.h>
  <torch/nn/modules/normalization.h> <torch/nn/functional/loss.h> <actors/session/host_model.hpp>
  <actors/session/session.hpp>)
foreach(program own_pass own_processes own_rates schedule_test)
  target_precompile_headers(${program} REUSE_FROM parsed_by_programs)
endforeach()
foreach(program own_layers own_compression own_model)
  target_precompile_headers(${program} REUSE_FROM parsed_by_modules)
endforeach()
add_custom_target(modules)
add_dependencies(modules own_layers own_compression own_model)
add_custom_target(programs)
add_dependencies(programs host schedule_test deepspeed_functions own_pass own_processes own_rates)
if(TARGET schedule_boost_test)
  add_dependencies(programs schedule_boost_test recovery_boost_test)
endif()
if(TARGET on_gpu)
  target_precompile_headers(on_gpu REUSE_FROM parsed_by_programs)
  add_dependencies(programs on_gpu)
endif()
END

# ---- no traces of where it came from
for program in "$prefix"/bin/* "$prefix"/lib/troupe/*.so; do
  [ -e "$program" ] || continue
  if readelf -d "$program" | grep -E 'R(UN)?PATH' | grep -q -e "$source" -e "$venv" -e "$build"; then
    die "$program looks for libraries in the checkout"
  fi
done
traces=$(grep -rlF -e "$source" -e "$venv" -e "$scratch/first" "$prefix/lib/cmake" "$prefix/include/troupe" || true)
[ -z "$traces" ] || die "paths of the build in $traces"
if ldd "$prefix/bin/troupe" | grep -q torch; then die "troupe links LibTorch"; fi
# Each header that an installed header includes is installed.
(cd "$prefix/include/troupe" && grep -rho '^#include "[a-z_]*/[^"]*"' . | sort -u | sed 's/.*"\(.*\)"/\1/' |
  while read -r header; do [ -f "$header" ] || echo "$header"; done) >"$scratch/absent"
[ ! -s "$scratch/absent" ] || die "not installed: $(tr '\n' ' ' <"$scratch/absent")"

# ---- use, with everything else out of sight
cat >"$scratch/use.sh" <<'USE'
set -eu
prefix=$1 project=$2 source=$3 venv=$4 version=$5 flags=$8 part=$9
launcher=
command -v ccache >/dev/null && launcher=-DCMAKE_CXX_COMPILER_LAUNCHER=ccache
cmake -S "$project" -B "$project/build" -G Ninja -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_CXX_FLAGS_DEBUG=-O0 $flags" $launcher \
  "-DCMAKE_PREFIX_PATH=$prefix" >"$project.log" 2>&1 || { tail -20 "$project.log"; exit 1; }
ninja -C "$project/build" "$part" >"$project.log" 2>&1 || { grep -m5 -E 'error|undefined' "$project.log"; exit 1; }
of_modules='own_layers|own_compression|own_modules'
if [ "$part" = modules ]; then one=own_layers only=-R; else one=host only=-E; fi
ctest --test-dir "$project/build" --no-tests=error --output-on-failure "$only" "$of_modules" >"$project.log" 2>&1 ||
  { tail -40 "$project.log"; exit 1; }
of_torch=$(ls "$prefix"/lib/troupe/torch/lib/*.so* | grep -vE '/lib(torch_|c10_)(cuda|nvshmem)[.]so')  # whose needs are NVIDIA's
# shellcheck disable=SC2086 # a list of names
libraries=$(ldd "$project/build/$one" "$prefix/bin/troupe-train" $of_torch)
case $libraries in *"not found"*) echo "$libraries" | grep "not found"; exit 1 ;; esac
case $libraries in *"$source"/* | *"$venv"/*) echo "libraries of the checkout are loaded"; exit 1 ;; esac
if [ "$part" = modules ]; then
  echo "everything ran"
  exit
fi
if [ -e "$prefix/lib/troupe/libtroupe_cuda.so" ]; then
  said=$("$project/build/on_gpu" "$project/topology.yaml" 2>&1) || true
  case $said in
    opened | "device cuda:0: no NVIDIA driver is loaded: "* | "device cuda:0: the NVIDIA driver "* | "device cuda:0: no GPU is visible: "*) ;;
    *"error while loading shared libraries: lib"*) echo "not tried, troupe::cuda: NVIDIA's libraries are not there" ;;
    *) echo "a program with troupe::cuda: $said"; exit 1 ;;
  esac
fi
# A package of another minor version is refused.
mkdir -p "$project/other"
echo 'cmake_minimum_required(VERSION 3.25)
project(other LANGUAGES CXX)
find_package(troupe 99.0 REQUIRED)' >"$project/other/CMakeLists.txt"
if cmake -S "$project/other" -B "$project/other/build" "-DCMAKE_PREFIX_PATH=$prefix" >/dev/null 2>&1; then
  echo "find_package(troupe 99.0) was content with $version"; exit 1
fi
cd "$project"
[ "$("$prefix/bin/troupe" --version)" = "$version" ] || { echo "troupe --version is wrong"; exit 1; }
"$prefix/bin/troupe" doctor . >doctor.txt || { cat doctor.txt; exit 1; }
"$prefix/bin/troupe" train topology.yaml --steps 2 --quiet || exit 1
echo "everything ran"
USE
hide='for folder in "$3" "$4" "$6"; do [ ! -d "$folder" ] || mount -t tmpfs -o size=4k none "$folder"; done; exec sh "$7/use.sh" "$@"'
cache=$(ccache -k cache_dir 2>/dev/null || echo "$scratch/cache")
set -- env -i "PATH=/usr/bin:/bin" "HOME=$scratch" "CCACHE_DIR=$cache" LC_ALL=C \
  CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
if unshare --user --map-root-user --mount true 2>/dev/null; then
  set -- "$@" unshare --user --map-root-user --mount sh -euc "$hide"
else
  echo "installed: no mount namespace here, the checkout stays visible"
  set -- "$@" sh -euc 'exec sh "$7/use.sh" "$@"'
fi
"$@" use "$prefix" "$scratch/project" "$source" "$venv" "$version" "$build" "$scratch" "$flags" "$part" || die "see above"
