"""Where the ranks of a DeepSpeed run meet on this machine, and what they leave there.

DeepSpeed's all-reduce on CPU keeps buffers of 66 MiB a rank in /dev/shm, named after the port, and removes none.
"""
import atexit
import pathlib
import socket


def free_port():
    """A free port of this machine; files of the ranks are removed when this process ends."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = str(s.getsockname()[1])
    atexit.register(remove_buffers, port)
    return port


def remove_buffers(port):
    """To be called once the ranks that met at `port` have ended."""
    for buffer in pathlib.Path("/dev/shm").glob(f"deepspeed_*_{port}_*"):
        buffer.unlink(missing_ok=True)
