#!/bin/sh
# Checks a GPU on a machine that has CUDA, PyTorch and none of Debian's packages:
#   visit.sh pack            where Troupe is built: makes build/visit.tar.xz out of the wheel and the programs of build/release
#   visit.sh PART [FOLDER]   on that machine, out of the unpacked `visit`: PART is 1+2 (kernels; sessions and losses), 3
#                            (sanitizers) or 4+5 (speed; offload), each within ten minutes. The page and what was measured
#                            so far go to FOLDER (.), so that the next part goes on there.
# Without a GPU a part says so and ends with 77; check.py runs it and tells its other codes.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
most_mib=64

fail() {
  echo "visit: error: $*" >&2
  exit 1
}

# Debian's libraries that a program needs, as `NAME FILE`: without those that every Linux has, LibTorch's and NVIDIA's.
debian_libraries() {
  ldd "$@" | sed -n 's/^[[:space:]]*\([^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u |
    grep -vE '^lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s|z)\.so|^libtroupe_|/(torch|nvidia)/|/cuda' || true
}

pack() {
  to=$root/build/visit
  tests="tests/gpu/tests_gpu tests/kernels/cuda/tests_kernels_cuda tests/bench/bench_cuda"
  wheel=$(ls "$root"/dist/troupe-*.whl 2>/dev/null) || fail "wanted a wheel in dist, got none: make wheel"
  rm -rf "$to"
  mkdir -p "$to/build/release/lib" "$to/dist" "$to/examples" "$to/tests/peer"
  for program in libtroupe_cuda.so $tests; do
    [ -e "$root/build/release/$program" ] ||
      fail "wanted build/release/$program, got none: make build DEVICE=cuda, ninja -C build/release $(basename "$program" .so)"
    mkdir -p "$(dirname "$to/build/release/$program")"
    strip -o "$to/build/release/$program" "$root/build/release/$program"
  done
  # shellcheck disable=SC2086 # a list of names
  (cd "$root/build/release" && debian_libraries $tests) | while read -r name file; do
    cp -L "$file" "$to/build/release/lib/$name"
  done
  cp "$wheel" "$to/dist"
  cp "$root/examples/corpus.txt" "$to/examples"
  cp -r "$root/tests/gpu" "$to/tests"
  cp -r "$root/tests/peer/shared" "$to/tests/peer"
  find "$to" -name __pycache__ -prune -exec rm -r {} +
  git -C "$root" describe --always --dirty=+ >"$to/COMMIT"
  XZ_OPT=-3 tar -C "$root/build" -cJf "$to.tar.xz" visit
  mib=$(($(stat -c %s "$to.tar.xz") / 1048576 + 1))
  echo "visit: build/visit.tar.xz has $mib MiB, at most $most_mib may travel"
  [ "$mib" -le "$most_mib" ] || fail "build/visit.tar.xz is too large"
}

# check PARTS FOLDER
check() {
  python3 "$root/tests/gpu/check.py" --find || exit
  [ -d "$root/build/release/lib" ] || fail "wanted what visit.sh pack makes, unpacked: no folder $root/build/release/lib"
  # The variable is for a Python that the system's packages own, as Ubuntu's; pip that does not know it ignores it.
  PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-compile \
    --force-reinstall "$root"/dist/troupe-*.whl
  packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
  scripts=$(python3 -c 'import sysconfig; print(sysconfig.get_path("scripts"))')
  torch=$(python3 -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])') ||
    fail "wanted PyTorch for $(command -v python3), got none"
  [ "$(dirname "$torch")" = "$packages" ] || fail "wanted PyTorch beside the wheel, in $packages, got $torch"
  [ -e "$packages/troupe/lib/libtroupe_cuda.so" ] || cp "$root/build/release/libtroupe_cuda.so" "$packages/troupe/bin"
  libraries=$torch/lib:$root/build/release/lib
  for folder in "$packages"/nvidia/*/lib; do libraries=$libraries:$folder; done
  PATH=$scripts:$PATH python3 "$root/tests/gpu/check.py" --parts "$1" --minutes 9 --libraries "$libraries" \
    --add --results "$2/gpu-check.json" --pages "$2"
}

folder=$(cd "${2:-.}" && pwd)
case "${1-}" in
  pack) pack ;;
  1+2) check kernels,sessions,losses "$folder" ;;
  3) check sanitizer,races "$folder" ;;
  4+5) check speed,sizes,offload "$folder" ;;
  *) fail "wanted pack, 1+2, 3 or 4+5, got '${1-}'" ;;
esac
