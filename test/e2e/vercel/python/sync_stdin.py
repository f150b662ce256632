"""Uses what came with vercel-sandbox 0.10, without async: standard input of processes, and forks of drives."""

import hashlib
import json
import subprocess

from vercel.sandbox import sync as sandbox_sdk

LARGE = bytes(range(256)) * 8192
seen = {}

drive, created = sandbox_sdk.get_or_create_drive(name="python-sync-drive", max_size_bytes=64 << 20)
with sandbox_sdk.create_sandbox(name="python-sync-stdin", mounts={"/data": drive}) as sandbox:
    done = sandbox.run_process("tr", ["a-z", "A-Z"], input="hello", capture_output=True)
    seen["run"] = [done.returncode, done.stdout]
    done = sandbox.run_process("sha256sum", input=LARGE, capture_output=True)
    seen["large"] = done.stdout.split()[0] == hashlib.sha256(LARGE).hexdigest()
    done = sandbox.run_process("cat", capture_output=True)
    seen["without"] = [done.returncode, done.stdout]

    process = sandbox.create_process("cat", stdin=subprocess.PIPE)
    process.stdin.write(b"one\n")
    again = sandbox.get_process(process.id)
    again.stdin.write(b"two\n")
    again.stdin.close()
    seen["pieces"] = [process.stdout.read(), process.wait()]

    ended = sandbox.create_process("true", stdin=subprocess.PIPE)
    ended.wait()
    try:
        ended.stdin.write(b"late")
    except BrokenPipeError:
        seen["ended"] = "BrokenPipeError"
    closed = sandbox.create_process("sleep", ["600"])
    try:
        sandbox.get_process(closed.id).stdin.write(b"nobody reads")
    except sandbox_sdk.SandboxStdinError as error:
        seen["unattached"] = error.cause.code
    closed.terminate()

    sandbox.run_process("sh", ["-c", "sudo chmod 777 /data && echo kept > /data/a.txt"], check=True)
    found = sandbox_sdk.get_drive(name_or_id="python-sync-drive")
    seen["drive"] = [created, found.id == drive.id, sandbox_sdk.get_drive(name_or_id=drive.id).name, found.current_sandbox_name]
    fork = found.fork(name="python-sync-fork")
    seen["fork"] = [fork.name, fork.max_size_bytes, fork.parent_drive_id == drive.id, fork.root_drive_id == drive.id]
    sandbox.run_process("sh", ["-c", "echo changed > /data/a.txt"], check=True)

second = sandbox_sdk.fork_drive(source="python-sync-fork", name="python-sync-second")
seen["second"] = [second.parent_drive_id == fork.id, second.root_drive_id == drive.id]
with sandbox_sdk.create_sandbox(mounts={"/data": fork}) as sandbox:
    seen["forked"] = sandbox.run_process("cat", ["/data/a.txt"], capture_output=True).stdout
for problem, source, name in [("missing", "nothing", "other"), ("taken", "python-sync-drive", "python-sync-fork")]:
    try:
        sandbox_sdk.fork_drive(source=source, name=name)
    except sandbox_sdk.SandboxApiError as error:
        seen[problem] = [error.status_code, error.code]
for name in ["python-sync-drive", "python-sync-fork", "python-sync-second"]:
    sandbox_sdk.delete_drive(name=name)
print(json.dumps(seen))
