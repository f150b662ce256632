"""The addresses of the interpreter: executions, contexts and a health check."""

import asyncio
import json

import tornado.iostream
import tornado.web

from contexts import Refusal
from jupyter_kernel import KernelDied
from outputs import line_of

#: seconds of silence before a line that keeps the connection alive
KEEPALIVE = 5


class Handler(tornado.web.RequestHandler):
    def initialize(self, contexts):
        self.contexts = contexts

    def set_default_headers(self):
        self.clear_header("Server")

    def fields(self, **kinds):
        """The fields of the body, each with its type; missing ones are None."""
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refusal(400, "Cannot read the request: it is not JSON") from None
        if not isinstance(given, dict):
            raise Refusal(400, "Cannot read the request: it is not an object")
        for name, kind in kinds.items():
            if given.get(name) is not None and not isinstance(given[name], kind):
                raise Refusal(400, f"Cannot read the request: `{name}` has the wrong type")
        return [given.get(name) for name in kinds]

    def log_exception(self, kind, error, trace):
        if not isinstance(error, Refusal):
            super().log_exception(kind, error, trace)

    def write_error(self, status, exc_info=None, **_):
        error = exc_info[1] if exc_info else None
        if isinstance(error, KernelDied):
            error = Refusal(500, f"Cannot start the kernel: {error}")
        if isinstance(error, Refusal):
            self.set_status(error.status)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.finish(str(error) if isinstance(error, Refusal) else "Cannot serve this request")

    def json(self, value):
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))


class Health(Handler):
    def get(self):
        self.finish("OK")


class ContextList(Handler):
    def get(self):
        self.json(self.contexts.list())

    async def post(self):
        language, cwd = self.fields(language=str, cwd=str)
        self.json((await self.contexts.create(language, cwd)).described())


class OneContext(Handler):
    async def delete(self, identity):
        await self.contexts.remove(identity)
        self.json({})


class Restart(Handler):
    async def post(self, identity):
        await self.contexts.get(identity).restart()
        self.json({})


class Execute(Handler):
    task = None

    async def post(self):
        code, context_id, language, environment = self.fields(code=str, context_id=str, language=str, env_vars=dict)
        if code is None:
            raise Refusal(400, "Cannot run code: `code` is missing")
        if context_id is not None and language is not None:
            raise Refusal(400, "Cannot run code: only one of `context_id` and `language` may be there")
        environment = environment or {}
        if not all(isinstance(value, str) and is_variable(name) for name, value in environment.items()):
            raise Refusal(400, "Cannot run code: `env_vars` should have names and texts")
        context = self.contexts.of_language(language) if context_id is None else self.contexts.get(context_id)
        self.set_header("Content-Type", "application/x-ndjson")
        self.task = asyncio.ensure_future(self.stream(context, code, environment))
        try:
            await self.task
        except asyncio.CancelledError:
            pass

    async def stream(self, context, code, environment):
        alive = asyncio.ensure_future(self.keep_alive())
        messages = context.execute(code, environment)
        try:
            await context.prepare(environment)
            # A client counts its time for the code from here on, even if the code is silent or waits for its turn.
            await self.flush()
            async for kind, content in messages:
                line = line_of(kind, content)
                if line is not None:
                    await self.send(line)
            await self.send({"type": "end_of_execution"})
        except tornado.iostream.StreamClosedError:
            pass
        finally:
            alive.cancel()
            # Shielded, because the interrupt must come to its end after the client has gone.
            await asyncio.shield(messages.aclose())

    async def keep_alive(self):
        while True:
            self.silent = True
            await asyncio.sleep(KEEPALIVE)
            if self.silent:
                await self.send({"type": "keepalive"})

    async def send(self, line):
        self.silent = False
        # Whole lines in ASCII: a client decodes each piece of the answer by itself.
        self.write(json.dumps(line) + "\n")
        await self.flush()

    def on_connection_close(self):
        if self.task:
            self.task.cancel()


def is_variable(name):
    return name.isidentifier() and name.isascii()


def application(contexts):
    routes = [
        (r"/health", Health),
        (r"/execute", Execute),
        (r"/contexts", ContextList),
        (r"/contexts/([\w-]+)/restart", Restart),
        (r"/contexts/([\w-]+)", OneContext),
    ]
    table = [(path, handler, {"contexts": contexts}) for path, handler in routes]
    return tornado.web.Application(table, log_function=lambda handler: None)
