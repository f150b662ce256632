"""Uses what came with vercel-sandbox 0.10, with async: standard input of processes, and forks of drives."""

import asyncio
import hashlib
import json
import subprocess

from vercel import sandbox as sandbox_sdk

LARGE = bytes(range(256)) * 8192


async def main():
    seen = {}
    drive, created = await sandbox_sdk.get_or_create_drive(name="python-async-drive", max_size_bytes=64 << 20)
    async with sandbox_sdk.create_sandbox(name="python-async-stdin", mounts={"/data": drive}) as sandbox:
        done = await sandbox.run_process("tr", ["a-z", "A-Z"], input="hello", capture_output=True)
        seen["run"] = [done.returncode, done.stdout]
        done = await sandbox.run_process("sha256sum", input=LARGE, capture_output=True)
        seen["large"] = done.stdout.split()[0] == hashlib.sha256(LARGE).hexdigest()
        process = await sandbox.create_process("cat", stdin=subprocess.PIPE)
        await process.stdin.send(b"one\n")
        await process.stdin.send(b"two\n")
        seen["pieces"] = [(await process.communicate(b"three\n"))[0], process.returncode]
        await sandbox.run_process("sh", ["-c", "sudo chmod 777 /data && echo kept > /data/a.txt"], check=True)

    found = await sandbox_sdk.get_drive(name_or_id="python-async-drive")
    fork = await found.fork(name="python-async-fork")
    seen["fork"] = [created, fork.name, fork.parent_drive_id == drive.id]
    async with sandbox_sdk.create_sandbox(mounts={"/data": fork.snapshot()}) as sandbox:
        seen["forked"] = (await sandbox.run_process("cat", ["/data/a.txt"], capture_output=True)).stdout
    for name in ["python-async-drive", "python-async-fork"]:
        await sandbox_sdk.delete_drive(name=name)
    print(json.dumps(seen))


asyncio.run(main())
