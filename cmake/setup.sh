#!/bin/sh
# What a fresh Debian 12 needs: setup.sh [PACKAGE... | --cuda]
# Without arguments: the packages of cmake/packages.txt and LibTorch in .venv. With arguments: only those of its packages
# that are marked `?`, for the one make target that asks. With --cuda: what libtroupe_cuda.so is made with and needs, of
# requirements-cuda.txt what this system lacks, beside LibTorch, or all if LibTorch cannot be opened with this system's.
# Installs what is missing, says what and why; a second run takes a blink.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)

die() {
  echo "setup: error: $*" >&2
  exit 1
}

# packages NAME...: the installed ones are left alone, the others come from apt in one go
packages() {
  missing=
  for name; do
    case " $installed " in *" $name "*) ;; *) missing="$missing $name" ;; esac
  done
  [ -n "$missing" ] || return 0
  echo "setup: installing Debian packages:"
  for name in $missing; do
    sed -n "s/^[?+]\{0,1\}\($name\) \{1,\}\(.*\)/  \1 (\2)/p" "$root/cmake/packages.txt"
  done
  command -v apt-get >/dev/null || die "wanted Debian's apt-get for$missing; this machine has none"
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "wanted root or sudo to install$missing; got neither"
    as_root=sudo
  fi
  $as_root apt-get update -qq || die "apt-get update failed: is the network there?"
  # shellcheck disable=SC2086 # a list of names
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ||
    die "apt-get could not install$missing"
}

libtorch() {
  stamp=$root/.venv/installed
  cmp -s "$root/requirements.txt" "$stamp" && return 0
  version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  [ "$version" = 3.11 ] || die "requirements.txt pins LibTorch for Python 3.11 (Debian 12); got Python $version"
  [ -x "$root/.venv/bin/pip" ] || python3 -m venv --clear "$root/.venv"
  echo "setup: installing LibTorch into .venv (0.5 GB to download, 1.3 GB on disk)"
  "$root/.venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
    -r "$root/requirements.txt" || die "pip could not install LibTorch"
  cp "$root/requirements.txt" "$stamp"
}

# has FILE: a library that the dynamic linker knows, or the compiler
has() {
  if [ "$1" = nvcc ]; then
    command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]
  else
    case "$libraries" in *"	$1 "*) true ;; *) false ;; esac
  fi
}

# cuda_lines [all]: those lines of requirements-cuda.txt whose file this system lacks; with `all` every library, too
cuda_lines() {
  take=
  while read -r line; do
    case "$line" in
      "# brings "*)
        file=${line#"# brings "}
        if has "$file" && { [ "${1-}" != all ] || [ "$file" = nvcc ]; }; then take=; else take=yes; fi
        ;;
      "#"*) ;;
      *) [ -z "$take" ] || printf '%s\n' "$line" ;;
    esac
  done <"$root/requirements-cuda.txt"
}

# install_cuda LINES: what of them is not in .venv yet
install_cuda() {
  stamp=$root/.venv/installed-cuda
  touch "$stamp"
  printf '%s\n' "$1" | grep . | grep -qvxFf "$stamp" || return 0
  echo "setup: installing NVIDIA's libraries that this system lacks into .venv:"
  printf '%s\n' "$1" | sed -n 's/^\([a-z0-9-]*\)==\([^ ]*\).*/  \1 \2/p'
  printf '%s\n' "$1" >"$stamp.new"
  "$root/.venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -r "$stamp.new" || die "pip could not install NVIDIA's libraries"
  mv "$stamp.new" "$stamp"
  # nvcc links out of lib64, which its wheels call lib.
  for toolkit in "$root"/.venv/lib/python3*/site-packages/nvidia/cu13; do
    [ ! -e "$toolkit/bin/nvcc" ] || [ -e "$toolkit/lib64" ] || ln -s lib "$toolkit/lib64"
  done
}

# Tries to load LibTorch for CUDA with all its symbols, without a GPU: a library of the right name may be too old.
opens_torch() {
  "$root/.venv/bin/python3" -c 'import ctypes, glob, os, sys
try:
    for library in glob.glob(sys.argv[1] + "/.venv/lib/python3*/site-packages/torch/lib/libtorch_cuda.so"):
        ctypes.CDLL(library, os.RTLD_NOW)
except OSError as e:
    sys.exit(f"setup: LibTorch for CUDA does not open: {e}")' "$root"
}

cuda_parts() {
  libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
  install_cuda "$(cuda_lines)"
  opens_torch && return 0
  install_cuda "$(cuda_lines all)"
  opens_torch || die "NVIDIA's libraries in .venv do not fit LibTorch: remove .venv and run make setup DEVICE=cuda again"
}

installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p' | tr '\n' ' ')
if [ "${1-}" = --cuda ]; then
  cuda_parts
elif [ $# -gt 0 ]; then
  packages "$@"
else
  # shellcheck disable=SC2046
  packages $(sed -n 's/^+\{0,1\}\([a-z0-9][^ ]*\) .*/\1/p' "$root/cmake/packages.txt")
  libtorch
fi
