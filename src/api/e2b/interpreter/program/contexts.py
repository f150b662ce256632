"""Contexts: each has a language, a directory and a kernel, and executes one piece of code at a time."""

import asyncio
import os
import shutil
import uuid

from environments import ENVIRONMENTS
from installed_kernel import spec_of
from jupyter_kernel import JupyterKernel, KernelDied
from pipe_kernel import BashKernel, JavaScriptKernel

ALIASES = {"js": "javascript", "ts": "typescript", "py": "python", "python3": "python", "sh": "bash"}
#: seconds that code may go on after an interrupt, before its kernel is started again
INTERRUPT_PATIENCE = 10


class Refusal(Exception):
    """A request that cannot be served, with the status of the answer."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Context:
    def __init__(self, language, cwd, kernel):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self.kernel = kernel
        self._turn = asyncio.Lock()

    async def prepare(self, environment):
        """Refuses what the kernel cannot do, and waits until it runs."""
        if environment and not self.kernel.sets_environment:
            raise Refusal(400, f"Cannot set variables: kernels of {self.language} take none")
        await self.kernel.start()

    async def execute(self, code, environment):
        """Yields the messages; a caller that closes the generator early interrupts the code."""
        async with self._turn:
            await self.kernel.start()
            messages = asyncio.Queue()
            running = asyncio.ensure_future(self._run(code, environment, messages))
            try:
                while (message := await messages.get()) is not None:
                    yield message
            finally:
                if not running.done():
                    await self._interrupt(running)

    async def _run(self, code, environment, messages):
        """A task of its own, so that it sees the end of the code after its client has gone."""
        try:
            async for message in self.kernel.execute(code, environment):
                messages.put_nowait(message)
        except KernelDied as died:
            await self.kernel.stop()
            error = {"ename": "KernelDied", "evalue": str(died), "traceback": [f"KernelDied: {died}"]}
            messages.put_nowait(("error", error))
        finally:
            messages.put_nowait(None)

    async def _interrupt(self, running):
        attempts = self.kernel.interrupt_attempts
        for _ in range(attempts):
            await self.kernel.interrupt()
            done, _ = await asyncio.wait({running}, timeout=INTERRUPT_PATIENCE / attempts)
            if done:
                return
        running.cancel()
        await asyncio.wait({running})
        await self.kernel.stop()

    async def restart(self):
        await self.kernel.stop()
        await self.kernel.start()

    def described(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}


class Contexts:
    def __init__(self, forker, program, folder, home):
        self._forker = forker
        self._program = program
        self._folder = folder
        self._home = home
        self._contexts = {}
        #: ids of the contexts that executions without a context use, by language
        self._defaults = {}

    def prepare(self):
        """Makes the default contexts, and starts the kernel that most clients use first."""
        for language in ("python", "javascript"):
            self._default(language)
        self._contexts[self._defaults["python"]].kernel.launch()

    def list(self):
        return [context.described() for context in self._contexts.values()]

    def get(self, identity):
        context = self._contexts.get(identity)
        if context is None:
            raise Refusal(404, f"Context {identity} not found")
        return context

    def of_language(self, language):
        return self._default(self._known(language))

    async def create(self, language, cwd):
        context = self._made(self._known(language), cwd)
        await context.kernel.start()
        self._contexts[context.id] = context
        return context

    async def remove(self, identity):
        context = self.get(identity)
        del self._contexts[identity]
        self._defaults = {language: id for language, id in self._defaults.items() if id != identity}
        await context.kernel.stop()

    async def close(self):
        for context in self._contexts.values():
            await context.kernel.stop()

    def _default(self, language):
        if language not in self._defaults:
            context = self._made(language, None)
            self._contexts[context.id] = context
            self._defaults[language] = context.id
        return self._contexts[self._defaults[language]]

    def _known(self, language):
        language = (language or "python").lower()
        return ALIASES.get(language, language)

    def _made(self, language, cwd):
        cwd = os.path.join(self._home, cwd or "")
        if not os.path.isdir(cwd):
            raise Refusal(400, f"Cannot make a context: {cwd} is not a directory")
        cwd = cwd.rstrip("/") or "/"
        return Context(language, cwd, self._kernel(language, cwd))

    def _kernel(self, language, cwd):
        if language == "python":
            return JupyterKernel(self._forker.start, cwd, self._folder, ENVIRONMENTS["python"])
        if language in ("javascript", "typescript"):
            if shutil.which("node") is None:
                raise Refusal(400, f"Cannot run {language}: the image has no Node")
            return JavaScriptKernel(cwd, self._folder, self._program, language == "typescript")
        if language == "bash":
            return BashKernel(cwd, self._folder)
        spec = spec_of(language)
        if spec is None:
            raise Refusal(400, f"Cannot run {language[:64]}: the image has no Jupyter kernel for it")
        return JupyterKernel(
            spec.start, cwd, self._folder, ENVIRONMENTS.get(language), True, spec.interrupts_by_message
        )
