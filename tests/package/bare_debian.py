"""A bare Debian in a folder, and commands in it: namespaces of their own for mounts and processes, nothing of this
machine's but its kernel and its mirror. One base is made by debootstrap and kept; folders are copies of it."""
import glob
import os
import re
import shutil
import subprocess
import time

SUITE = "bookworm"
USER, USER_ID = "reader", 2000  # an ordinary one
KEEP_DAYS = 7  # the age at which a base is made anew
# What apt and dpkg write for themselves, and what follows from which libraries there are.
OWN_STATE = re.compile(r"^(var/lib/(apt|dpkg)|var/cache/(apt|debconf|ldconfig|man)|var/log|etc/ld\.so\.cache|root/|tmp)(/|$)")

# $1 the folder, $2 the user, $3 the command; then pairs FROM TO of folders to show in it, read-only.
INSIDE = r"""
set -eu
root=$1 user=$2 command=$3
shift 3
mount --make-rprivate /
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for device in null zero full random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
while [ $# -gt 0 ]; do
  mkdir -p "$root$2"
  mount --bind "$1" "$root$2"
  mount -o remount,ro,bind "$root$2"
  shift 2
done
home=/root
[ "$user" = root ] || home=/home/$user
exec chroot --userspec="$user" "$root" env -i HOME="$home" USER="$user" LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${http_proxy:+http_proxy="$http_proxy"} \
  ${https_proxy:+https_proxy="$https_proxy"} sh -c "$command"
"""


class Finished:
    def __init__(self, code, out, seconds):
        self.code, self.out, self.seconds = code, out, seconds


def mirrors():
    """[(address, suite)] of this machine's apt that have this suite's main packages."""
    found = []
    for name in ["/etc/apt/sources.list", *sorted(glob.glob("/etc/apt/sources.list.d/*"))]:
        if not os.path.isfile(name):
            continue
        with open(name, encoding="utf-8") as file:
            text = file.read()
        if name.endswith(".sources"):
            for paragraph in re.split(r"\n\s*\n", text):
                keys = dict(re.findall(r"^(\w[\w-]*):[ \t]*(.*)$", paragraph, re.M))
                if "deb" in keys.get("Types", "").split() and "main" in keys.get("Components", "").split():
                    found += [(uri, suite) for uri in keys["URIs"].split() for suite in keys["Suites"].split()]
        else:
            found += [(uri, suite) for uri, suite, parts in
                      re.findall(r"^deb +(?:\[[^\]]*\] +)?(\S+) +(\S+) +(.*)$", text, re.M) if "main" in parts.split()]
    found = [(uri, suite) for uri, suite in found if re.fullmatch(SUITE + r"(-updates|-security)?", suite)]
    if not any(suite == SUITE for _, suite in found):
        raise SystemExit(f"package-check: wanted a mirror of Debian's {SUITE} in /etc/apt/sources*, got none")
    return found


def make_base(path):
    """The base in `path`, unless a young one of the same mirrors is there."""
    sources = "".join(f"deb {uri} {suite} main\n" for uri, suite in mirrors())
    stamp = path + ".made"
    if os.path.isfile(stamp) and time.time() - os.path.getmtime(stamp) < KEEP_DAYS * 86400:
        with open(stamp, encoding="utf-8") as file:
            if file.read() == sources:
                return
    shutil.rmtree(path, ignore_errors=True)
    address = next(uri for uri, suite in mirrors() if suite == SUITE)
    command = ["debootstrap", "--variant=minbase", *(["--include=ca-certificates"] if "https:" in sources else []),
               SUITE, path, address]
    did = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if did.returncode != 0:
        raise SystemExit(f"package-check: {' '.join(command)}: {did.stdout[-2000:]}")
    with open(path + "/etc/apt/sources.list", "w", encoding="utf-8") as file:
        file.write(sources)
    proxies = subprocess.run(["apt-config", "dump", "Acquire::http::Proxy"], stdout=subprocess.PIPE, text=True).stdout
    if proxies.strip():
        with open(path + "/etc/apt/apt.conf.d/90proxy", "w", encoding="utf-8") as file:
            file.write(proxies)
    shutil.copyfile("/etc/resolv.conf", path + "/etc/resolv.conf")
    base = Folder(path)
    base.must(f"useradd --create-home --uid {USER_ID} --shell /bin/bash {USER} && apt-get update -qq")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(sources)


class Folder:
    """A root folder with a Debian in it."""

    def __init__(self, path, base=None):
        self.path = path
        self.shown = []  # (folder here, folder there), read-only
        if base:
            shutil.rmtree(path, ignore_errors=True)
            subprocess.run(["cp", "-a", "--reflink=auto", base, path], check=True)

    def run(self, command, user="root", filtered=False):
        """What `command` printed, both streams, and its exit code; `filtered`: where io_uring is refused."""
        line = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", self.path, user, command]
        for here, there in self.shown:
            line += [here, there]
        if filtered:
            line = ["python3", os.path.join(os.path.dirname(__file__), "without_io_uring.py"), *line]
        begin = time.monotonic()
        did = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             errors="replace")
        return Finished(did.returncode, did.stdout, time.monotonic() - begin)

    def must(self, command, **how):
        """The same of what nothing can be checked without."""
        did = self.run(command, **how)
        if did.code != 0:
            raise SystemExit(f"package-check: {command}: ended with {did.code}: {did.out[-3000:]}")
        return did

    def has(self, name):
        return os.path.lexists(self.path + name)

    def files(self):
        """{name: (size, mode)} of all that lies in it but the package managers' own state."""
        out = {}
        for folder, folders, names in os.walk(self.path):
            for name in folders + names:
                full = os.path.join(folder, name)
                relative = os.path.relpath(full, self.path)
                if not OWN_STATE.match(relative) and not relative.startswith(("proc/", "sys/", "dev/")):
                    status = os.lstat(full)
                    is_folder = name in folders and not os.path.islink(full)
                    out[relative] = (0 if is_folder else status.st_size, status.st_mode)
        return out
