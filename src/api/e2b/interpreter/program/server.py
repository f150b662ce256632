"""
The server of the code interpreter, on port 49999 inside a sandbox. It answers each execution with lines of JSON as the
output comes. It prints a line when it listens.
"""

import asyncio
import os
import signal
import sys
import tempfile

from contexts import Contexts

PROGRAM = os.path.dirname(os.path.abspath(__file__))
PORT = 49_999
#: bytes of a request
LONGEST_BODY = 64 << 20


async def main():
    with tempfile.TemporaryDirectory(prefix="interpreter-") as folder:
        # Kernels inherit this; a shell that starts with ignored interrupts cannot be interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        contexts = Contexts(PROGRAM, folder, os.getcwd())
        contexts.prepare()
        # Loaded while the first kernel starts.
        from handlers import application

        port = int(sys.argv[1]) if len(sys.argv) > 1 else PORT
        limits = {"max_body_size": LONGEST_BODY, "max_buffer_size": LONGEST_BODY}
        application(contexts).listen(port, address="127.0.0.1", **limits)
        print("listening", flush=True)
        ended = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
        await ended.wait()
        await contexts.close()


if __name__ == "__main__":
    asyncio.run(main())
