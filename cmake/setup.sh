#!/bin/sh
# What a fresh Debian 12 needs: setup.sh [PACKAGE... | --cuda]
# Without arguments: the packages of cmake/packages.txt and LibTorch in .venv. With arguments: only those of its packages
# that are marked `?`, for the one make target that asks. With --cuda: what libtroupe_cuda.so is made with and needs, of
# requirements-cuda.txt what this system lacks, beside LibTorch. Installs what is missing, says what and why; a second run takes
# a blink.
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

cuda_parts() {
  stamp=$root/.venv/installed-cuda
  libraries=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p)
  wanted=$(
    take=
    while read -r line; do
      case "$line" in
        "# brings "*)
          file=${line#"# brings "}
          file=${file%%:*}
          if has "$file"; then take=; else take=yes; fi
          ;;
        "#"*) ;;
        *) [ -z "$take" ] || printf '%s\n' "$line" ;;
      esac
    done <"$root/requirements-cuda.txt"
  )
  [ -n "$wanted" ] || return 0
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return 0; fi
  echo "setup: installing NVIDIA's libraries that this system lacks into .venv:"
  printf '%s\n' "$wanted" | sed -n 's/^\([a-z0-9-]*\)==\([^ ]*\).*/  \1 \2/p'
  printf '%s\n' "$wanted" >"$stamp.new"
  "$root/.venv/bin/python3" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
    --only-binary :all: -r "$stamp.new" || die "pip could not install NVIDIA's libraries"
  mv "$stamp.new" "$stamp"
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
