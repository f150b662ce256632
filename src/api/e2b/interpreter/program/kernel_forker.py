"""
The server's side of the fork server in python_kernel.py: asks it for kernels, and learns of their ends. If that process
has died, its kernels have died with it, and the next kernel gets a new one.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

from jupyter_kernel import describe_end


class KernelForker:
    def __init__(self, pid, channel, program):
        self._program = program
        #: kernels that have not ended, by number
        self._kernels = {}
        self._count = 0
        self._use(pid, channel)

    def start(self, file, cwd):
        """Starts a kernel with this connection file."""
        if self._channel is None:
            self._use(*self._spawned())
        self._count += 1
        kernel = self._kernels[self._count] = ForkedKernel()
        try:
            self._channel.send(json.dumps({"number": self._count, "file": file, "cwd": cwd}).encode())
        except OSError:
            self._lost()
        return kernel

    def _use(self, pid, channel):
        self._pid = pid
        self._channel = channel
        asyncio.get_running_loop().add_reader(channel, self._read)

    def _spawned(self):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, os.path.join(self._program, "python_kernel.py"), str(theirs.fileno())]
            nothing = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
            return subprocess.Popen(argv, pass_fds=(theirs.fileno(),), **nothing).pid, ours

    def _read(self):
        try:
            data = self._channel.recv(4096)
        except OSError:
            data = b""
        if not data:
            return self._lost()
        message = json.loads(data)
        if "pid" in message:
            self._kernels[message["number"]].started(message["pid"])
        else:
            self._kernels.pop(message["number"]).ended(message["status"])

    def _lost(self):
        asyncio.get_running_loop().remove_reader(self._channel)
        self._channel.close()
        self._channel = None
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        for kernel in self._kernels.values():
            kernel.signal(signal.SIGKILL)
            kernel.ended(-signal.SIGKILL)
        self._kernels = {}


class ForkedKernel:
    """A process of the fork server."""

    def __init__(self):
        self._pid = asyncio.get_running_loop().create_future()
        self._status = asyncio.get_running_loop().create_future()

    def started(self, pid):
        self._pid.set_result(pid)

    def ended(self, status):
        self._status.set_result(status)

    def end(self):
        """How it ended, in words; None while it runs."""
        return describe_end(self._status.result()) if self._status.done() else None

    def signal(self, number):
        """To its process group."""
        if not self._pid.done() or self._status.done():
            return
        try:
            os.killpg(self._pid.result(), number)
        except ProcessLookupError:
            pass

    async def kill(self):
        await asyncio.wait({self._pid, self._status}, return_when=asyncio.FIRST_COMPLETED)
        self.signal(signal.SIGKILL)
        await asyncio.wait({self._status})
