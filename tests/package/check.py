#!/usr/bin/env python3
"""check.py PACKAGES SCRATCH BUILD: `make package-check`. The packages in the folder PACKAGES as their users have them, each
part in a bare Debian of its own below SCRATCH: installed, used, upgraded and purged without a trace; a project built with
them; the steps of the Dockerfile; lintian; and packed once more from BUILD, to the same bytes. Wants root."""
import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from bare_debian import USER, Folder, make_base
from container import check_container

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NAMES = ("troupe", "troupe-train", "troupe-dev")
ON_GPU = "troupe-cuda"  # where there was nvcc
SMALLEST = "troupe train /usr/share/troupe/examples/smallest.yaml"
TRAIN_SECONDS_MAX = 60
COMMAND_BYTES_MAX = 10_000_000


class Checks:
    """What was found right and wrong; parts run beside each other."""

    def __init__(self):
        self.wrong, self.lock, self.begin = [], threading.Lock(), time.monotonic()

    def that(self, good, sentence, detail=""):
        with self.lock:
            print(f"{time.monotonic() - self.begin:5.0f} s  {'good ' if good else 'WRONG'}  {sentence}", flush=True)
            if not good:
                print("\n".join("                " + line for line in str(detail).splitlines()[-40:]), flush=True)
                self.wrong.append(sentence)

    def ended_well(self, did, sentence):
        self.that(did.code == 0, sentence, f"ended with {did.code}\n{did.out}")

    def falling_loss(self, did, sentence):
        losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", did.out)]
        self.that(did.code == 0 and len(losses) > 1 and losses[-1] < 0.9 * losses[0],
                  f"{sentence}: losses {losses[:1]} to {losses[-1:]} in {did.seconds:.1f} s", did.out)
        self.that(did.seconds <= TRAIN_SECONDS_MAX, f"{sentence}: within {TRAIN_SECONDS_MAX} s", did.seconds)

    def no_compiler(self, folder, where):
        found = [name for name in ("cc", "gcc", "g++", "clang", "make") if folder.has("/usr/bin/" + name)]
        self.that(not found, f"{where}: no compiler", found)


def version_of(file):
    return subprocess.run(["dpkg-deb", "--field", file, "Version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def next_version(file, folder):
    """A package of the next patch with a page less and a page more; its name."""
    version = version_of(file)
    upstream, revision = version.rsplit("-", 1)
    parts = upstream.split(".")
    new = ".".join(parts[:-1] + [str(int(parts[-1]) + 1)]) + "-" + revision
    root = os.path.join(folder, "next-root-" + os.path.basename(file))
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["dpkg-deb", "--raw-extract", file, root], check=True)
    with open(root + "/DEBIAN/control", encoding="utf-8") as control:
        text = control.read().replace(version, new)
    with open(root + "/DEBIAN/control", "w", encoding="utf-8") as control:
        control.write(text)
    pages = root + "/usr/share/troupe/docs/"
    if os.path.isdir(pages):
        os.rename(pages + "tiers.md", pages + "of_the_next_version.md")
    out = os.path.join(folder, os.path.basename(file).replace(version, new))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, out], check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)
    return out


def check_user(checks, folder, packages, scratch):
    """A user's machine: the command alone, then training, then the next version, then nothing."""
    later = os.path.join(scratch, "next")
    shutil.rmtree(later, ignore_errors=True)
    os.makedirs(later)
    used = [name for name in (*NAMES[:2], ON_GPU) if name in packages]
    for name in used:
        next_version(packages[name], later)
    folder.shown = [(os.path.dirname(packages["troupe"]), "/packages"), (later, "/later")]
    folder.must("apt-get update -qq")
    before = folder.files()

    checks.ended_well(folder.run("apt-get install -y /packages/troupe_*.deb"), "troupe alone is installed by apt-get")
    checks.that(folder.run("troupe --version").out.strip() == version_of(packages["troupe"]).split("-")[0],
                "troupe --version says the package's version")
    did = folder.run("cd && " + SMALLEST, user=USER)
    checks.that(did.code == 1 and "Debian's package `troupe-train`" in did.out,
                "troupe alone says what to install when it shall train", did.out)
    did = folder.run("troupe doctor /var/tmp", user=USER)
    checks.that(did.code == 1 and "Debian's package `troupe-train`" in did.out, "and so does the doctor", did.out)
    checks.ended_well(folder.run("troupe plan /usr/share/troupe/examples/smallest.yaml", user=USER), "troupe alone plans")

    folder.must("apt-get install -y --download-only /packages/troupe_*.deb /packages/troupe-train_*.deb")
    begin = time.monotonic()
    checks.ended_well(folder.run("apt-get install -y /packages/troupe_*.deb /packages/troupe-train_*.deb"),
                      "troupe-train is installed by apt-get")
    checks.no_compiler(folder, "a machine that trains")
    did = folder.run("cd && " + SMALLEST, user=USER)
    checks.falling_loss(did, "the smallest example trains out of the box")
    checks.that(time.monotonic() - begin <= TRAIN_SECONDS_MAX, "installing and training, after the download, within a minute",
                time.monotonic() - begin)
    checks.that(folder.has(f"/home/{USER}/runs/smallest/report.html") and not folder.has("/usr/share/troupe/examples/runs"),
                "what it writes is in the folder that the user was in", did.out)
    checks.ended_well(folder.run("troupe doctor /var/tmp", user=USER), "the doctor lacks nothing")
    did = folder.run("bash -c 'source /usr/share/bash-completion/completions/troupe && complete -p troupe'")
    checks.that("troupe" in did.out and did.code == 0, "bash completes", did.out)
    for name in ("/usr/share/zsh/vendor-completions/_troupe", "/usr/share/fish/vendor_completions.d/troupe.fish",
                 "/usr/share/troupe/examples/troupe.schema.json", "/usr/share/doc/troupe/changelog.Debian.gz",
                 "/usr/share/doc/troupe-train/torch-licences/torch/LICENSE", "/usr/share/doc/troupe-train/copyright"):
        checks.that(folder.has(name), f"{name} is there")
    with gzip.open(folder.path + "/usr/share/man/man1/troupe-train.1.gz", "rt") as page:
        checks.that(".SH NAME" in page.read(), "the manual has a page of troupe train")

    if ON_GPU in packages:
        check_gpu(checks, folder)
    did = folder.run("apt-get install -y " + " ".join(f"/later/{name}_*.deb" for name in used))
    checks.ended_well(did, "the next version is an upgrade")
    versions = folder.must("dpkg-query -W -f '${Version} ' " + " ".join(used)).out.split()
    checks.that(set(versions) == {version_of(os.path.join(later, name)) for name in os.listdir(later)},
                "all have the next version", versions)
    checks.that(folder.has("/usr/share/troupe/docs/of_the_next_version.md") and
                not folder.has("/usr/share/troupe/docs/tiers.md"), "pages that it has no more are gone")
    checks.ended_well(folder.run("cd && " + SMALLEST + " --steps 2 --fresh", user=USER), "and it trains")
    checks.ended_well(folder.run(f"apt-get purge -y {' '.join(used)} && apt-get autoremove --purge -y"), "they are purged")
    after = folder.files()
    left = sorted(name for name in set(after) - set(before) if not name.startswith(f"home/{USER}/"))
    left += sorted(name for name in before if before[name] != after.get(name))
    checks.that(not left, "nothing is left and nothing is missing", left)


def check_gpu(checks, folder):
    """A machine that trains is told what a GPU needs, package by package: here there is none, nor NVIDIA's libraries."""
    train = "cd && " + SMALLEST + " --fresh --set device=cuda"
    did = folder.run(train, user=USER)
    checks.that(did.code == 1 and f"Debian's package `{ON_GPU}`" in did.out, "without troupe-cuda a job for a GPU names it", did.out)
    checks.ended_well(folder.run(f"apt-get install -y /packages/{ON_GPU}_*.deb"), "troupe-cuda is installed by apt-get")
    did = folder.run(train, user=USER)
    lacks = re.search(r"device: cuda requires (lib\S+), which this system lacks: `pip install --no-deps --target '(\S+)' -r '(\S+)'`",
                      did.out)
    checks.that(did.code == 1 and lacks, "with it a job for a GPU names the library of NVIDIA's that is missing", did.out)
    checks.that(lacks and lacks[2] == "/usr/lib/troupe" and folder.has(lacks[3]), "and the command that brings it", did.out)
    checks.that(folder.has("/usr/share/doc/troupe-cuda/copyright"), "troupe-cuda says whose it is")


def check_host(checks, folder, packages):
    """A machine that builds a program around Troupe: the example, from the packages and what they depend on alone."""
    folder.shown = [(os.path.dirname(packages["troupe"]), "/packages")]
    folder.must("apt-get update -qq")
    checks.ended_well(folder.run("apt-get install -y --no-install-recommends g++ cmake ninja-build /packages/troupe_*.deb "
                                 "/packages/troupe-train_*.deb /packages/troupe-dev_*.deb"), "troupe-dev is installed")
    folder.must("cp -r /usr/share/troupe/examples/embedding ~/project", user=USER)
    begin = time.monotonic()
    did = folder.run("cmake -S ~/project -B ~/project/build -G Ninja -DCMAKE_BUILD_TYPE=Debug '-DCMAKE_CXX_FLAGS_DEBUG=-O0' && "
                     "ninja -C ~/project/build", user=USER)
    checks.ended_well(did, f"examples/embedding is built with troupe-dev in {time.monotonic() - begin:.0f} s")
    checks.ended_well(folder.run("ctest --test-dir ~/project/build --output-on-failure", user=USER), "and its tests pass")
    checks.ended_well(folder.run("apt-get purge -y troupe-dev troupe-train troupe"), "all three are purged")
    left = [name for name in folder.files() if name.startswith("usr/") and "troupe" in os.path.basename(name)]
    checks.that(not left, "nothing of them is left", left)


def check_lintian(checks, packages):
    did = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", "--tag-display-limit", "0", *packages.values()],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    errors = [line for line in did.stdout.splitlines() if line.startswith("E: ")]
    checks.that(not errors and did.returncode in (0, 2), "lintian finds no error", did.stdout)


def digest(name):
    with open(name, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def date_of(package):
    """The SOURCE_DATE_EPOCH that it was packed with: of an ar archive's first member."""
    with open(package, "rb") as file:
        return file.read(36)[24:].decode().strip()


def check_same_bytes(checks, packages, scratch, build):
    again = os.path.join(scratch, "again")
    shutil.rmtree(again, ignore_errors=True)
    did = subprocess.run(["cpack", "--config", os.path.join(build, "CPackConfig.cmake"), "-B", again], stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": date_of(packages["troupe"])})
    for name, file in packages.items():
        twin = os.path.join(again, os.path.basename(file))
        checks.that(did.returncode == 0 and os.path.isfile(twin) and digest(file) == digest(twin),
                    f"{name}: packed once more it has the same bytes", did.stdout)
    shutil.rmtree(again, ignore_errors=True)


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    if os.geteuid() != 0:
        raise SystemExit("package-check: wanted root, who makes folders that are machines; got a user")
    out, scratch, build = (os.path.abspath(name) for name in sys.argv[1:])
    packages = {}
    has_cuda = os.path.exists(os.path.join(build, "libtroupe_cuda.so"))
    for name in (*NAMES, ON_GPU) if has_cuda else NAMES:
        found = [os.path.join(out, file) for file in os.listdir(out) if re.fullmatch(re.escape(name) + r"_[^_]+_\w+\.deb", file)]
        if len(found) != 1:
            raise SystemExit(f"package-check: wanted one package {name} in {out} (make package), got {len(found)}")
        packages[name] = found[0]
    os.makedirs(scratch, exist_ok=True)
    if not has_cuda:
        print("package-check: no troupe-cuda: there was no nvcc")
    checks = Checks()
    bytes_of_command = os.path.getsize(packages["troupe"])
    checks.that(bytes_of_command <= COMMAND_BYTES_MAX, f"troupe is a download of {bytes_of_command / 1e6:.1f} MB")
    base = os.path.join(scratch, "base")
    make_base(base)
    checks.that(True, "a bare Debian is there")
    folders = {name: Folder(os.path.join(scratch, name), base) for name in ("user", "host", "container")}

    def work(*parts):
        for part in parts:
            try:
                part()
            except SystemExit as e:
                checks.that(False, str(e))

    lines = [threading.Thread(target=work, args=parts) for parts in (
        (lambda: check_user(checks, folders["user"], packages, scratch),
         lambda: check_container(checks, folders["container"], SOURCE, base),
         lambda: check_lintian(checks, packages)),
        (lambda: check_host(checks, folders["host"], packages),
         lambda: check_same_bytes(checks, packages, scratch, build)))]
    for line in lines:
        line.start()
    for line in lines:
        line.join()
    for folder in folders.values():
        shutil.rmtree(folder.path, ignore_errors=True)
    shutil.rmtree(os.path.join(scratch, "next"), ignore_errors=True)
    if checks.wrong:
        raise SystemExit(f"package-check: {len(checks.wrong)} wrong: {'; '.join(checks.wrong)}")
    print("package-check: all is good")


main()
