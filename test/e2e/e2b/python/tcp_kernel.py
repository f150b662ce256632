"""
A kernel like those of Java: it speaks TCP alone, learns of its folder from its command line, and is interrupted by a
message, since a signal ends it. Code is a word: "where", "wait", or one that it gives back.
"""

import hashlib
import hmac
import json
import os
import sys

import zmq

folder, connection = sys.argv[1:]
with open(connection) as file:
    facts = json.load(file)
if facts["transport"] != "tcp":
    sys.exit("This kernel speaks TCP alone")
if os.stat(connection).st_mode & 0o077:
    sys.exit("Others may read the key")

context = zmq.Context()


def bound(kind, channel):
    socket = context.socket(kind)
    socket.bind(f"tcp://{facts['ip']}:{facts[f'{channel}_port']}")
    return socket


shell, control, iopub = bound(zmq.ROUTER, "shell"), bound(zmq.ROUTER, "control"), bound(zmq.PUB, "iopub")


def signature(frames):
    return hmac.new(facts["key"].encode(), b"".join(frames), hashlib.sha256).hexdigest().encode()


def received(socket):
    frames = socket.recv_multipart()
    at = frames.index(b"<IDS|MSG>")
    if signature(frames[at + 2 : at + 6]) != frames[at + 1]:
        sys.exit("A request is not signed")
    return frames[:at], json.loads(frames[at + 2]), json.loads(frames[at + 5])


def tell(parent, kind, content, socket=iopub, to=()):
    parts = ({"msg_id": os.urandom(8).hex(), "msg_type": kind, "version": "5.3"}, parent, {}, content)
    frames = [json.dumps(part).encode() for part in parts]
    socket.send_multipart([*to, b"<IDS|MSG>", signature(frames), *frames])


def run(parent, code):
    if code == "wait":
        to, request, _ = received(control)
        tell(request, "interrupt_reply", {"status": "ok"}, control, to)
        return tell(parent, "error", {"ename": "Interrupted", "evalue": "", "traceback": []})
    text = f"{facts['ip']} {facts['shell_port']} {folder} {os.environ['OWN']}" if code == "where" else code
    tell(parent, "execute_result", {"data": {"text/plain": text}, "metadata": {}, "execution_count": 1})


while True:
    to, parent, content = received(shell)
    tell(parent, "status", {"execution_state": "busy"})
    if parent["msg_type"] == "execute_request":
        run(parent, content["code"])
    tell(parent, parent["msg_type"].replace("request", "reply"), {"status": "ok"}, shell, to)
    tell(parent, "status", {"execution_state": "idle"})
