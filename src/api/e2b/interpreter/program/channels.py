"""
Where the channels of a kernel are: its own address for each, and what its connection file says of them. Our kernel of
Python has unix sockets in a private folder. Kernels that are programs of the image get TCP, since many speak nothing else.
"""

import os
import secrets
import socket

CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


class UnixChannels:
    """Sockets in a folder that only this user may enter."""

    def __init__(self, place):
        self._place = place
        ports = {f"{channel}_port": n for n, channel in enumerate(CHANNELS, 1)}
        self.described = {**ports, "transport": "ipc", "ip": place}

    def address(self, channel):
        return f"ipc://{self._place}-{self.described[f'{channel}_port']}"

    def is_open(self):
        return os.path.exists(f"{self._place}-1")

    def remove(self):
        for n in range(1, len(CHANNELS) + 1):
            try:
                os.unlink(f"{self._place}-{n}")
            except FileNotFoundError:
                pass


class LoopbackChannels:
    """
    Ports of a random address of the loopback device. Traffic from outside arrives at 127.0.0.1 alone, so the ports have no
    address there. Other users inside may connect: they can neither read the key nor sign a request, but a kernel sends its
    outputs to everyone who subscribes to them.
    """

    def __init__(self):
        ip = f"127.{secrets.randbelow(254) + 1}.{secrets.randbelow(256)}.{secrets.randbelow(254) + 1}"
        ports = dict(zip((f"{channel}_port" for channel in CHANNELS), free_ports(ip, len(CHANNELS))))
        self.described = {**ports, "transport": "tcp", "ip": ip}

    def address(self, channel):
        return f"tcp://{self.described['ip']}:{self.described[f'{channel}_port']}"

    def is_open(self):
        with socket.socket() as probe:
            return probe.connect_ex((self.described["ip"], self.described["shell_port"])) == 0

    def remove(self):
        pass


def free_ports(ip, count):
    # All are open at once, so that they differ.
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((ip, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
