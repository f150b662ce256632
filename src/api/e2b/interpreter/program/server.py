"""
The server of the code interpreter, on port 49999 inside a sandbox. It answers each execution with lines of JSON as the
output comes. It prints a line when it listens.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile

import python_kernel

PROGRAM = os.path.dirname(os.path.abspath(__file__))
PORT = 49_999
#: bytes of a request
LONGEST_BODY = 64 << 20


def main():
    # Kernels inherit this; a shell that starts with ignored interrupts cannot be interrupted.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    python_kernel.load()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Before there is an event loop, or anything else that cannot be forked.
    forker = os.fork()
    if forker == 0:
        ours.close()
        return python_kernel.main(theirs)
    theirs.close()
    asyncio.run(listen(forker, ours))


async def listen(forker, channel):
    # Loaded after the fork, so that kernels do not have them.
    from contexts import Contexts
    from kernel_forker import KernelForker

    with tempfile.TemporaryDirectory(prefix="interpreter-") as folder:
        contexts = Contexts(KernelForker(forker, channel, PROGRAM), PROGRAM, folder, os.getcwd())
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
    main()
