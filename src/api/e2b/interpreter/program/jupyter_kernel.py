"""A kernel that speaks Jupyter's protocol (version 5) over ZeroMQ."""

import asyncio
import hashlib
import hmac
import json
import os
import secrets
import signal
import time

from channels import LoopbackChannels, UnixChannels

DELIMITER = b"<IDS|MSG>"
#: seconds that a kernel may take to start
START_PATIENCE = 60


class KernelDied(Exception):
    """The kernel's process has ended."""


def describe_end(status):
    """A process's end in words; a negative status is the signal that ended it."""
    return f"the kernel was ended by signal {-status}" if status < 0 else f"the kernel exited with {status}"


class JupyterKernel:
    interrupt_attempts = 1

    def __init__(self, begin, cwd, folder, environment, is_installed=False, interrupts_by_message=False):
        """
        `begin` starts the process, with a connection file and a directory. `environment` makes the code that sets variables
        and the code that undoes it; None if there is none for the language.
        """
        self.cwd = cwd
        self.sets_environment = environment is not None
        self._environment = environment
        self._is_installed = is_installed
        self._interrupts_by_message = interrupts_by_message
        self._begin = begin
        self._folder = folder
        self._process = None
        self._ready = None
        self._control = None
        self._sockets = []

    def launch(self):
        """Starts the process; `start` connects to it and waits until it answers."""
        self._key = secrets.token_hex(16)
        self._session = secrets.token_hex(8)
        self._place = os.path.join(self._folder, secrets.token_hex(8))
        self._channels = LoopbackChannels() if self._is_installed else UnixChannels(self._place)
        secret = {"key": self._key, "signature_scheme": "hmac-sha256"}
        file = f"{self._place}.json"
        with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            json.dump({**self._channels.described, **secret}, out)
        self._process = self._begin(file, self.cwd)

    async def start(self):
        if self._process is None:
            self.launch()
        if self._ready is None:
            self._ready = asyncio.ensure_future(self._answer())
        await asyncio.shield(self._ready)

    def _connect(self):
        # Imported here, so that the first kernel starts before it is loaded.
        import zmq

        self._shell = self._socket(zmq.DEALER, "shell")
        self._iopub = self._socket(zmq.SUB, "iopub")
        self._iopub.setsockopt(zmq.SUBSCRIBE, b"")

    async def _answer(self):
        deadline = time.monotonic() + START_PATIENCE
        while not self._channels.is_open():
            await self._wait_for_start(deadline, 0.002)
        self._connect()
        # A subscriber may join late, so ask until an answer comes on the channel of outputs.
        while True:
            await self._send("kernel_info_request", {})
            if await self._receive(self._iopub, 0.05):
                return
            await self._wait_for_start(deadline, 0)

    async def _wait_for_start(self, deadline, seconds):
        self._require_alive()
        if time.monotonic() > deadline:
            raise KernelDied("the kernel did not answer")
        await asyncio.sleep(seconds)

    async def execute(self, code, environment):
        """Yields Jupyter's messages of one execution as (type, content), until the kernel is idle again."""
        begin, undo = self._environment(environment) if environment else (None, None)
        if begin:
            await self._silently(begin)
        try:
            request = await self._send("execute_request", execution(code))
            async for message in self._outputs(request):
                yield message
        finally:
            if undo and self._process.end() is None:
                await self._send("execute_request", execution(undo, silent=True))

    async def _silently(self, code):
        request = await self._send("execute_request", execution(code, silent=True))
        async for _ in self._outputs(request):
            pass

    async def _outputs(self, request):
        while True:
            message = await self._receive(self._iopub, 0.25)
            if message is None:
                self._require_alive()
                continue
            kind, parent, content = message
            if parent != request:
                continue
            if kind == "status" and content.get("execution_state") == "idle":
                await self._drain_replies()
                return
            yield kind, content

    async def _drain_replies(self):
        while await self._shell.poll(0):
            await self._shell.recv_multipart()

    async def interrupt(self):
        if not self._interrupts_by_message:
            return self._process.signal(signal.SIGINT)
        import zmq

        self._control = self._control or self._socket(zmq.DEALER, "control")
        await self._send("interrupt_request", {}, self._control)

    async def stop(self):
        if self._process is None:
            return
        if self._ready is not None:
            self._ready.cancel()
        for socket in self._sockets:
            socket.close(0)
        self._sockets = []
        await self._process.kill()
        # Some kernels delete it themselves.
        if os.path.exists(f"{self._place}.json"):
            os.unlink(f"{self._place}.json")
        self._channels.remove()
        self._process = self._ready = self._control = None

    def _require_alive(self):
        end = self._process.end()
        if end is not None:
            raise KernelDied(end)

    def _socket(self, kind, channel):
        import zmq
        import zmq.asyncio

        socket = zmq.asyncio.Context.instance().socket(kind)
        self._sockets.append(socket)
        # Without limits of their own: a dropped message would be missing from the answer.
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, 10)
        socket.connect(self._channels.address(channel))
        return socket

    async def _send(self, kind, content, socket=None):
        identity = secrets.token_hex(12)
        header = {
            "msg_id": identity,
            "session": self._session,
            "username": "sandkeep",
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "msg_type": kind,
            "version": "5.3",
        }
        frames = [json.dumps(part).encode() for part in (header, {}, {}, content)]
        await (socket or self._shell).send_multipart([DELIMITER, self._signature(frames), *frames])
        return identity

    async def _receive(self, socket, seconds):
        """The next message as (type, id of its request, content); None if none comes in time, or if it is not signed."""
        if not await socket.poll(max(1, int(seconds * 1000))):
            return None
        frames = await socket.recv_multipart()
        start = frames.index(DELIMITER) + 1
        signed = frames[start + 1 : start + 5]
        if not hmac.compare_digest(frames[start], self._signature(signed)):
            return None
        header, parent, _, content = (json.loads(frame) for frame in signed)
        return header["msg_type"], parent.get("msg_id"), content

    def _signature(self, frames):
        digest = hmac.new(self._key.encode(), digestmod=hashlib.sha256)
        for frame in frames:
            digest.update(frame)
        return digest.hexdigest().encode()


def execution(code, silent=False):
    return {
        "code": code,
        "silent": silent,
        "store_history": not silent,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": False,
    }
