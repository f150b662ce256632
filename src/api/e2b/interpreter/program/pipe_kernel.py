"""
Kernels of our own, for JavaScript and Bash: a process that keeps the state of a context. Its standard output and standard
error are the code's; requests go in on descriptor 3, and replies come out on descriptor 4, a line each.
"""

import asyncio
import codecs
import json
import os
import secrets
import shlex
import signal
import subprocess

from jupyter_kernel import KernelDied

CHUNK = 1 << 16


class PipeKernel:
    """Base of both: subclasses know the program, and the form of requests and replies."""

    sets_environment = True
    interrupt_attempts = 1

    def __init__(self, cwd, folder):
        self.cwd = cwd
        self._folder = folder
        self._process = None
        self._count = 0

    def argv(self):
        raise NotImplementedError

    def request(self, code, environment):
        """The line that starts an execution."""
        raise NotImplementedError

    def reply(self, line):
        """The messages of a line, and whether it was the last one of an execution."""
        raise NotImplementedError

    def exited(self, status):
        """The messages of a process that ended during an execution."""
        raise KernelDied(f"the kernel was ended by signal {-status}" if status < 0 else f"the kernel exited with {status}")

    def launch(self):
        self._messages = asyncio.Queue()
        requests, self._requests = os.pipe()
        self._replies, replies = os.pipe()
        # The child finds both under fixed numbers, whatever they are here.
        wiring = f'exec 3<&{requests} 4>&{replies}; exec "$@"'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", wiring, "kernel", *self.argv()],
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(requests, replies),
            start_new_session=True,
        )
        os.close(requests)
        os.close(replies)
        self._outputs = {"stdout": self._process.stdout.fileno(), "stderr": self._process.stderr.fileno()}
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in self._outputs}
        self._line = b""
        loop = asyncio.get_running_loop()
        for name, fd in self._outputs.items():
            os.set_blocking(fd, False)
            loop.add_reader(fd, self._read_output, name, fd)
        os.set_blocking(self._replies, False)
        loop.add_reader(self._replies, self._read_replies)

    async def start(self):
        if self._process is None:
            self.launch()

    async def execute(self, code, environment):
        """Yields messages in Jupyter's form as (type, content), until the execution has ended."""
        self._count += 1
        yield "execute_input", {"execution_count": self._count}
        line = self.request(code, environment)
        await asyncio.get_running_loop().run_in_executor(None, self._write, line.encode() + b"\n")
        while True:
            message = await self._messages.get()
            if message is None:
                status = await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
                for last in self.exited(status):
                    yield last
                await self.stop()
                return
            kind, content = message
            if kind == "end":
                return
            yield kind, content

    def _write(self, data):
        try:
            while data:
                data = data[os.write(self._requests, data) :]
        except OSError:
            pass  # It has ended; the end of its replies says so.

    def _read_output(self, name, fd):
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(fd)
            return False
        text = self._decoders[name].decode(data)
        if text:
            self._messages.put_nowait(("stream", {"name": name, "text": text}))
        return True

    def _read_replies(self):
        try:
            data = os.read(self._replies, CHUNK)
        except BlockingIOError:
            return
        # What was printed before the reply is in the pipes already.
        for name, fd in self._outputs.items():
            while self._read_output(name, fd):
                pass
        if not data:
            asyncio.get_running_loop().remove_reader(self._replies)
            self._messages.put_nowait(None)
            return
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            for message in self.reply(line.decode("utf-8", "replace")):
                self._messages.put_nowait(message)

    async def interrupt(self):
        self._signal(signal.SIGINT)

    async def stop(self):
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        loop = asyncio.get_running_loop()
        for fd in (*self._outputs.values(), self._replies):
            loop.remove_reader(fd)
        await loop.run_in_executor(None, self._process.wait)
        self._process.stdout.close()
        self._process.stderr.close()
        os.close(self._requests)
        os.close(self._replies)
        self._process = None
        self._count = 0

    def _signal(self, number):
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass


class JavaScriptKernel(PipeKernel):
    """Requests and replies are JSON."""

    def __init__(self, cwd, folder, program, is_typescript):
        super().__init__(cwd, folder)
        self._program = program
        self._is_typescript = is_typescript

    def argv(self):
        return ["node", "--no-warnings", os.path.join(self._program, "javascript_kernel.mjs")]

    def request(self, code, environment):
        return json.dumps({"code": code, "environment": environment, "typescript": self._is_typescript})

    def reply(self, line):
        kind, content = json.loads(line)
        return [(kind, content)]

    async def interrupt(self):
        # The code's children end; the kernel itself ends the execution on request, because a signal would end Node.
        self._write(b'{"interrupt":true}\n')


class BashKernel(PipeKernel):
    """
    A shell whose standard input is the requests: lines that source files with the code. The replies are a word once the code
    has ended, and then its exit status.
    """

    # The shell drops what it runs only if the program that it waits for ends by the signal. A program that has just been
    # forked, and is not executed yet, loses it.
    interrupt_attempts = 10

    def argv(self):
        # Interactive, because such a shell drops what it runs at an interrupt, and then reads its next line.
        # It says on standard error that it has no terminal, so it gets its standard error with the first request.
        return ["bash", "-c", "PS1= PS2= exec bash --norc --noprofile --noediting -i <&3 3<&- 5>&2 2>/dev/null"]

    def launch(self):
        super().launch()
        self._write(b"exec 2>&5 5>&-\n")

    def request(self, code, environment):
        self._cell = os.path.join(self._folder, secrets.token_hex(8))
        before, after = [], []
        for name, value in environment.items():
            before.append(f"_sandkeep_{name}=${{{name}-}} _sandkeep_had_{name}=${{{name}+x}}; export {name}={shlex.quote(value)}")
            after.append(
                f'if [ -n "$_sandkeep_had_{name}" ]; then {name}=$_sandkeep_{name}; else unset {name}; fi; '
                f"unset _sandkeep_{name} _sandkeep_had_{name}"
            )
        for suffix, lines in (("", [*before, code]), (".after", [f"rm -f {self._cell} {self._cell}.after", *after])):
            with open(self._cell + suffix, "w") as out:
                out.write("\n".join(lines) + "\n")
        self._runs_code = True
        # Two lines: after an interrupt of the first, the second has its status.
        after = f"_sandkeep_status=$?; echo ended >&4; . {self._cell}.after; echo $_sandkeep_status >&4"
        return f". {self._cell} </dev/null 4>&-\n{after}"

    def reply(self, line):
        if line == "ended":
            self._runs_code = False
            return []
        status = int(line)
        return [*([] if status == 0 else [bash_error(status)]), ("end", {})]

    async def interrupt(self):
        # One that came later would keep the shell from its reply.
        if self._runs_code:
            await super().interrupt()

    def exited(self, status):
        return [bash_error(status if status >= 0 else 128 - status)] if status != 0 else []


def bash_error(status):
    return "error", {"ename": "", "evalue": str(status), "traceback": []}
