"""A page's lines about the machine and the versions that were measured."""
import os
import pathlib
import platform
import subprocess

import runs


def output_of(*command):
    try:
        return subprocess.run(command, cwd=runs.ROOT, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def processor():
    """The name that the kernel gives, or the family where a virtual machine hides it; and the widest vectors."""
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name", "unknown")
    if name == "unknown":
        name = f"{fields.get('vendor_id', platform.machine())} family {fields.get('cpu family', '?')} model {fields.get('model', '?')}"
    flags = fields.get("flags", "").split()
    wide = [f for f in ("avx512f", "avx512_bf16", "amx_bf16") if f in flags] or [f for f in ("avx2",) if f in flags]
    return f"{name} ({', '.join(wide)})" if wide else name


def facts():
    memory = next(int(line.split()[1]) for line in pathlib.Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal"))
    system = next((line.split("=", 1)[1].strip('"') for line in pathlib.Path("/etc/os-release").read_text().splitlines()
                   if line.startswith("PRETTY_NAME=")), platform.system())
    versions = output_of(str(runs.PYTHON), "-c", "import importlib.metadata as m; print(m.version('torch'), m.version('deepspeed'))").split()
    return {"processor": processor(), "cores": os.cpu_count(), "memory_gib": round(memory / 2**20), "system": system,
            "kernel": ".".join(platform.release().split(".")[:2]), "torch": versions[0] if versions else None, "deepspeed": versions[1] if versions else None}


def commit():
    """The short hash, with a + where tracked files differ from it."""
    return output_of("git", "rev-parse", "--short", "HEAD") + ("+" if output_of("git", "status", "--porcelain", "-uno") else "")


def load():
    """Processes that wanted a core in the last minute: near 0 if nothing else runs."""
    return os.getloadavg()[0]
