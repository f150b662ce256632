"""Uses Vercel's Python SDK as its users do, with async, and prints what it saw as JSON."""

import asyncio
import json
import time
import urllib.request

from vercel import sandbox as sandbox_sdk

SERVER = "import http.server as h; h.HTTPServer(('', 3000), h.SimpleHTTPRequestHandler).serve_forever()"


def answer(url):
    for attempt in range(100):
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.read().decode()
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.1)


async def main():
    seen = {}
    async with sandbox_sdk.create_sandbox(name="python-async", ports=[3000], env={"GREETING": "hello"}) as sandbox:
        done = await sandbox.run_process("sh", ["-c", "echo $GREETING; echo wrong >&2; exit 3"], capture_output=True)
        seen["run"] = [done.returncode, done.stdout, done.stderr]

        await sandbox.fs.write_text("notes/a.txt", "first")
        await sandbox.fs.write_bytes("notes/b.bin", bytes(range(256)))
        seen["read"] = [await sandbox.fs.read_text("notes/a.txt"), await sandbox.fs.read_bytes("notes/b.bin") == bytes(range(256))]
        await sandbox.fs.mkdir("made/below")
        seen["list"] = sorted(entry.path for entry in await sandbox.fs.listdir("notes"))
        seen["exists"] = [await sandbox.fs.exists("made/below"), await sandbox.fs.is_dir("made/below"), await sandbox.fs.exists("nothing")]
        await sandbox.fs.rename("notes/a.txt", "notes/c.txt")
        await sandbox.fs.remove("notes/b.bin")
        seen["after"] = sorted(entry.path for entry in await sandbox.fs.listdir("notes"))

        background = await sandbox.create_process("sh", ["-c", "echo begun; sleep 600"])
        await background.terminate()
        seen["killed"] = await background.wait()
        seen["processes"] = len(await sandbox.query_processes())

        await sandbox.fs.write_text("index.html", "served")
        await sandbox.create_process("python3", ["-c", SERVER])
        seen["port"] = await asyncio.to_thread(answer, sandbox.routes[0].url + "/index.html")

        await sandbox.extend_execution_time_limit(60)
        await sandbox.update(tags={"kind": "test"})
        seen["tags"] = dict((await sandbox_sdk.get_sandbox(name="python-async")).tags)
        seen["found"] = "python-async" in [each.name async for each in sandbox_sdk.query_sandboxes()]

        await sandbox.fs.write_text("kept.txt", "kept")
        snapshot = await sandbox.snapshot()
        seen["snapshot"] = snapshot.status
        async with sandbox_sdk.create_sandbox(source=sandbox_sdk.SnapshotSource(snapshot_id=snapshot.id)) as copy:
            seen["copy"] = await copy.fs.read_text("kept.txt")
        seen["resumed"] = await (await sandbox_sdk.resume_sandbox(name="python-async")).fs.read_text("kept.txt")
        await sandbox.stop()
        seen["sessions"] = len(await sandbox.list_sessions())

    print(json.dumps(seen))


asyncio.run(main())
