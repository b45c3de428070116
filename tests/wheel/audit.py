"""What auditwheel says of a wheel: audit.py WHEEL. Ends with 1 where its tag promises more than its files keep.

Two things are not for auditwheel to know: torch's libraries, and CUDA's runtime that torch loads, lie beside the package
(the extras `train` and `cuda`), and pip puts `data/` where `scripts/` is, so that a program finds its libraries by
`../libexec`.
"""

import sys
import tempfile
import zipfile
from pathlib import Path

from auditwheel.wheel_abi import analyze_wheel_abi

OF_TORCH = frozenset({"libtorch_cpu.so", "libc10.so", "libtorch_cuda.so", "libc10_cuda.so", "libcudart.so.13"})

wheel = Path(sys.argv[1])
tag = wheel.stem.split("-")[-1]
with tempfile.TemporaryDirectory() as folder:
    installed = Path(folder) / wheel.name
    with zipfile.ZipFile(wheel) as packed, zipfile.ZipFile(installed, "w") as placed:
        for entry in packed.infolist():
            data = packed.read(entry)
            if entry.filename.endswith("/RECORD"):
                data = data.replace(b".data/data/libexec/", b".data/libexec/")
            entry.filename = entry.filename.replace(".data/data/libexec/", ".data/libexec/")
            placed.writestr(entry, data)
    found = analyze_wheel_abi(None, None, installed, OF_TORCH, disable_isa_ext_check=False, allow_graft=False)
for policy, reference in found.external_refs.items():
    if policy == tag and reference.libs:
        print(f"{tag} wants in the wheel: {', '.join(reference.libs)}")
print(f"consistent with {found.overall_policy.name}, asked for {tag}")
sys.exit(found.overall_policy.priority < found.policies.get_policy_by_name(tag).priority)  # newer systems come first
