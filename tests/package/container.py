"""The container of the Dockerfile: its steps in a folder, under the filter that engines set; and where docker or buildah is
there and works, the real thing, from the same bare Debian in place of the base that would be downloaded."""
import os
import shutil
import subprocess

from dockerfile import Image

EXAMPLES = "/usr/share/troupe/examples/"
BASE, IMAGE = "troupe-check-base", "troupe-check"
SWAPPING = ["train", EXAMPLES + "beyond_memory.yaml", "--steps", "2", "--fresh",
            "--set", "zero_optimization.offload_param.nvme_path=swap",
            "--set", "zero_optimization.offload_optimizer.nvme_path=swap"]
SMALLEST = ["train", EXAMPLES + "smallest.yaml"]


def check_container(checks, folder, source, base):
    image = Image(os.path.join(source, "Dockerfile"), source, folder)
    checks.that(image.user not in ("root", "0"), "the container's user is not root", image.user)
    checks.no_compiler(folder, "the container")
    did = image.run(filtered=True)
    checks.that(did.code == 0 and "refused by a seccomp filter" in did.out and "works through threads instead" in did.out,
                "where a seccomp filter refuses io_uring, the doctor says so and what it means", did.out)
    did = image.run(SWAPPING, filtered=True)
    checks.that(did.code == 0 and "with threads instead" in did.out, "and a run offloads to disk all the same", did.out)
    checks.falling_loss(image.run(SMALLEST, filtered=True), "the container trains")
    did = image.run(["--version"])
    checks.that(did.code == 0, "the entry point is troupe", did.out)
    engine = usable_engine()
    if engine is None:
        print("         neither docker nor buildah works here: the steps ran in a folder alone", flush=True)
    else:
        check_engine(checks, engine, source, base)


def usable_engine():
    if shutil.which("docker") and _run(["docker", "info"]).returncode == 0:
        return "docker"
    return "buildah" if shutil.which("buildah") else None


def _run(command, **how):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how)


def check_engine(checks, engine, source, base):
    if engine == "docker":
        steps = [["sh", "-c", f"tar -C {base} -c . | docker import - {BASE}"],
                 ["docker", "build", "--network=host", "--build-arg", "BASE=" + BASE, "-t", IMAGE, source]]
        use, names = ["docker", "run", "--rm", IMAGE], ["docker", "rmi", "-f", IMAGE, BASE]
    else:
        steps = [["sh", "-c", f"at=$(buildah from scratch) && buildah add -q $at {base} / && buildah commit -q --rm $at {BASE}"],
                 ["buildah", "build", "--isolation=chroot", "--build-arg", "BASE=" + BASE, "-t", IMAGE, source],
                 ["buildah", "from", "--name", IMAGE + "-running", IMAGE]]
        use = ["buildah", "run", "--isolation=chroot", IMAGE + "-running", "--", "troupe"]
        names = ["sh", "-c", f"buildah rm {IMAGE}-running; buildah rmi -f {IMAGE} {BASE}"]
    try:
        for step in steps:
            did = _run(step)
            if did.returncode != 0:
                checks.that(False, f"{engine} builds the Dockerfile", did.stdout)
                return
        checks.that(True, f"{engine} builds the Dockerfile")
        did = _run(use + SMALLEST)
        checks.that(did.returncode == 0, f"and the image trains under {engine}", did.stdout)
    finally:
        _run(names)
