#!/usr/bin/env python3
"""without_io_uring.py COMMAND...: runs it under a seccomp filter that refuses io_uring, as container engines' own does."""
import ctypes
import os
import struct
import sys

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, EQUAL, GIVE = 0x20, 0x15, 0x06  # BPF: the call's number; compared with a constant; the verdict
REFUSED, ALLOWED = 0x00050000 | 1, 0x7FFF0000  # EPERM
CALLS = (425, 426, 427)  # io_uring_setup, io_uring_enter, io_uring_register, the same on every architecture


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def main():
    steps = [struct.pack("HBBI", LOAD, 0, 0, 0)]
    for behind, call in enumerate(reversed(CALLS)):
        steps.insert(1, struct.pack("HBBI", EQUAL, behind + 1, 0, call))
    steps += [struct.pack("HBBI", GIVE, 0, 0, ALLOWED), struct.pack("HBBI", GIVE, 0, 0, REFUSED)]
    program = Program(len(steps), b"".join(steps))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)):
        sys.exit(f"without_io_uring: wanted a seccomp filter, got: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[1], sys.argv[1:])


main()
