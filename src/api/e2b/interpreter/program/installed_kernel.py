"""Kernels that are programs of the image: where Jupyter finds them, and the process of one."""

import asyncio
import json
import os
import signal
import string
import subprocess
import sys

from jupyter_kernel import KernelDied, describe_end


class KernelSpec:
    """What a kernel.json says about a kernel."""

    def __init__(self, folder, content):
        self._folder = folder
        self._argv = [str(word) for word in content["argv"]]
        self._variables = {str(name): str(value) for name, value in (content.get("env") or {}).items()}
        self.language = str(content.get("language", "")).lower()
        #: whether a signal would end the kernel, so that it is interrupted by a message
        self.interrupts_by_message = content.get("interrupt_mode") == "message"

    def start(self, file, cwd):
        """Starts a kernel with this connection file."""
        values = {"connection_file": file, "resource_dir": self._folder, "prefix": sys.prefix}
        argv = [replaced(word, values) for word in self._argv]
        # A value may name variables that are there.
        own = {name: string.Template(value).safe_substitute(os.environ) for name, value in self._variables.items()}
        try:
            return InstalledKernel(argv, cwd, own)
        except OSError as error:
            raise KernelDied(f"{argv[0]} cannot be executed ({error.strerror})") from None


def replaced(word, values):
    for name, value in values.items():
        word = word.replace("{%s}" % name, value)
    return word


def spec_of(language):
    """The first kernel that the image has for this language, as a KernelSpec; None if it has none."""
    for folder in kernel_folders():
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            at = os.path.join(folder, name)
            try:
                with open(os.path.join(at, "kernel.json")) as file:
                    spec = KernelSpec(at, json.load(file))
            except (OSError, ValueError, KeyError, TypeError, AttributeError):
                continue
            if spec.language == language:
                return spec
    return None


def kernel_folders():
    """In Jupyter's order."""
    homes = [path for path in os.environ.get("JUPYTER_PATH", "").split(os.pathsep) if path]
    homes += [os.path.expanduser("~/.local/share/jupyter"), os.path.join(sys.prefix, "share/jupyter")]
    homes += ["/usr/local/share/jupyter", "/usr/share/jupyter"]
    return [os.path.join(home, "kernels") for home in dict.fromkeys(homes)]


class InstalledKernel:
    """The process of a kernel that is a program of the image."""

    def __init__(self, argv, cwd, variables):
        # A session of its own, so that an interrupt reaches the children of the code too.
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            # A kernel ends with the process that this names.
            env={**os.environ, **variables, "JPY_PARENT_PID": str(os.getpid())},
        )

    def end(self):
        """How it ended, in words; None while it runs."""
        status = self._process.poll()
        return None if status is None else describe_end(status)

    def signal(self, number):
        """To its process group."""
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            pass

    async def kill(self):
        self.signal(signal.SIGKILL)
        await asyncio.get_running_loop().run_in_executor(None, self._process.wait)
