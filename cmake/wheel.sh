#!/bin/sh
# Builds dist/troupe-*.whl out of build/release, whose objects it links once more: wheel.sh JOBS. Same sources in the same
# place, same bytes: times in it are the last commit's (or SOURCE_DATE_EPOCH).
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools=$root/build/wheel-tools
if ! cmp -s python/requirements.txt "$tools/installed"; then
  echo "wheel: installing scikit-build-core and nanobind into build/wheel-tools"
  [ -x "$tools/bin/pip" ] || python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
    -r python/requirements.txt
  cp python/requirements.txt "$tools/installed"
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CMAKE_BUILD_PARALLEL_LEVEL="${1:-1}"
# `make wheel-check` has auditwheel look whether the tag is true.
"$tools/bin/python" -m build --wheel --no-isolation -C build-dir=build/release \
  -C wheel.tags=cp311-abi3-manylinux_2_36_x86_64 >build/wheel.log 2>&1 || {
  tail -n 40 build/wheel.log >&2
  echo "wheel: error: it could not be built; all of it stands in build/wheel.log" >&2
  exit 1
}
ls -l dist/troupe-*.whl | awk '{printf "%s, %.1f MB\n", $9, $5 / 1e6}'
