#!/bin/sh
# Tries dist/troupe-*.whl in a bare Debian of another release, made in a folder, with that release's own Python, a compiler
# nowhere: in_debian.sh SUITE. What pip needs there is downloaded here, the mirror is this machine's. Needs root.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
suite=$1
tools=$root/build/wheel-tools
bare=$root/build/wheel-$suite

fail() {
  echo "wheel-check: error: $*" >&2
  exit 1
}
[ "$(id -u)" = 0 ] || fail "wanted root for a Debian in a folder, got $(id -un)"
"$root/cmake/setup.sh" debootstrap
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Origin: Debian' 'Label: Debian' | head -n 1)

if [ ! -e "$bare/made" ]; then
  rm -rf "$bare"
  echo "wheel-check: making a bare Debian $suite in build/wheel-$suite"
  debootstrap --variant=minbase --include=python3,python3-venv "$suite" "$bare" "$mirror" >"$root/build/wheel-$suite.log" ||
    fail "debootstrap: $(tail -n 3 "$root/build/wheel-$suite.log")"
  touch "$bare/made"
fi
version=$(chroot "$bare" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')

rm -rf "$bare/root/wheel"
mkdir "$bare/root/wheel"
"$tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --python-version "$version" \
  --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_17_x86_64 \
  -d "$bare/root/wheel" numpy nanobind-backend
cp -r "$root"/dist/troupe-*.whl "$root/tests/formats/fixtures" "$root/tests/wheel/functions.py" \
  "$root/tests/wheel/training.py" "$root/examples/corpus.txt" "$bare/root/wheel"
cat >"$bare/root/wheel/try" <<'END'
set -eu
cd /root/wheel
python3 -m venv venv
venv/bin/pip install --quiet --no-index --find-links . troupe
venv/bin/troupe --version
venv/bin/troupe checkpoint to-fp32 fixtures/deepspeed/stage2_bf16 out.safetensors --quiet
venv/bin/troupe checkpoint diff out.safetensors fixtures/deepspeed/stage2_bf16.safetensors --quiet
venv/bin/python -c 'import troupe'
venv/bin/pip install --quiet --no-index --find-links . numpy
venv/bin/python functions.py fixtures
# The libraries of torch are those of .venv, whatever Python it is for.
ln -s /mnt/torch /mnt/nvidia "$(venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
venv/bin/python training.py corpus.txt
END
unshare --mount sh -c 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && mount --bind "$2" "$1/mnt" &&
  exec env -i PATH="$PATH" chroot "$1" sh /root/wheel/try' \
  sh "$bare" "$(echo "$root"/.venv/lib/python3*/site-packages)" >"$root/build/wheel-$suite.log" 2>&1 || fail "Python $version of $suite: $(tail -n 40 "$root/build/wheel-$suite.log")"
echo "wheel-check: Python $version of Debian $suite: $(tail -n 1 "$root/build/wheel-$suite.log"), $(grep -o '^Ran.*' "$root/build/wheel-$suite.log" | paste -sd ,)"
