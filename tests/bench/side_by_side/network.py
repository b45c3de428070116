"""Hosts on one machine for measurements: a network namespace each, joined by a bridge; commands on them, their links' rates and counters.

As tests/machines/hosts.hpp has them for tests. They go with the process that made them.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

INSIDE = "TROUPE_BENCH_NETWORK"


def enter():
    """Runs this program again where it may make hosts, and gives its exit code; None where it is there already."""
    if os.environ.get(INSIDE):
        return None
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return subprocess.run(["unshare", "--net", "--mount", *user, "--", sys.executable, *sys.argv], env=dict(os.environ) | {INSIDE: "1"}).returncode


def must(line):
    subprocess.run(line, shell=True, check=True)


class Hosts:
    def __init__(self, number):
        self.number = number
        must("mount -t tmpfs hosts /run && mkdir -p /run/netns && ip link set lo up && ip link add bridge type bridge && ip link set bridge up")
        for h in range(number):
            must(f"ip netns add h{h} && ip link add port{h} type veth peer name eth0 netns h{h} && ip link set port{h} master bridge && "
                 f"ip link set port{h} up && ip -n h{h} addr add {self.address(h)}/24 dev eth0 && ip -n h{h} link set eth0 up && ip -n h{h} link set lo up")

    @staticmethod
    def address(host):
        return f"10.77.0.{host + 1}"

    @staticmethod
    def on(host, command):
        return ["ip", "netns", "exec", f"h{host}", *command]

    def slow(self, bits_per_s):
        """What each host sends; None: as fast as it goes."""
        for h in range(self.number):
            if bits_per_s is None:
                subprocess.run(f"ip netns exec h{h} tc qdisc del dev eth0 root", shell=True, stderr=subprocess.DEVNULL)
            else:
                must(f"ip netns exec h{h} tc qdisc replace dev eth0 root tbf rate {bits_per_s}bit burst 64kb latency 50ms")

    @staticmethod
    def received_bytes(host):
        """By the link's own counter."""
        said = subprocess.run(Hosts.on(host, ["cat", "/sys/class/net/eth0/statistics/rx_bytes"]), capture_output=True, text=True, check=True)
        return int(said.stdout)

    @staticmethod
    def cut(host):
        must(f"ip link set port{host} down")

    @staticmethod
    def heal(host):
        must(f"ip link set port{host} up")


class Certificates:
    """Of hosts a, b, c ..., in a folder of their own."""

    def __init__(self, troupe, names):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="certificates_"))
        for command in (["init"], ["issue"]):
            subprocess.run([str(troupe), "cert", *command, str(self.folder), *(names if command == ["issue"] else [])], check=True, capture_output=True)

    def of(self, name):
        return self.folder / name
