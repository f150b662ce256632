"""Uses Vercel's Python SDK as its users do, without async, and prints what it saw as JSON."""

import json
import time
import urllib.request

from vercel.sandbox import sync as sandbox_sdk

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


seen = {}
with sandbox_sdk.create_sandbox(name="python-sync", ports=[3000], env={"GREETING": "hello"}) as sandbox:
    done = sandbox.run_process("sh", ["-c", "echo $GREETING; echo wrong >&2; exit 3"], capture_output=True)
    seen["run"] = [done.returncode, done.stdout, done.stderr]

    sandbox.fs.write_text("notes/a.txt", "first")
    sandbox.fs.write_bytes("notes/b.bin", bytes(range(256)))
    seen["read"] = [sandbox.fs.read_text("notes/a.txt"), sandbox.fs.read_bytes("notes/b.bin") == bytes(range(256))]
    sandbox.fs.mkdir("made/below")
    seen["list"] = sorted(entry.path for entry in sandbox.fs.listdir("notes"))
    seen["exists"] = [sandbox.fs.exists("made/below"), sandbox.fs.is_dir("made/below"), sandbox.fs.exists("nothing")]
    sandbox.fs.rename("notes/a.txt", "notes/c.txt")
    sandbox.fs.remove("notes/b.bin")
    seen["after"] = sorted(entry.path for entry in sandbox.fs.listdir("notes"))

    background = sandbox.create_process("sh", ["-c", "echo begun; sleep 600"])
    background.terminate()
    seen["killed"] = background.wait()
    seen["processes"] = len(sandbox.query_processes())

    sandbox.fs.write_text("index.html", "served")
    sandbox.create_process("python3", ["-c", SERVER])
    seen["port"] = answer(sandbox.routes[0].url + "/index.html")

    sandbox.extend_execution_time_limit(60)
    sandbox.update(tags={"kind": "test"})
    seen["tags"] = dict(sandbox_sdk.get_sandbox(name="python-sync").tags)
    seen["found"] = "python-sync" in [each.name for each in sandbox_sdk.query_sandboxes()]

    sandbox.fs.write_text("kept.txt", "kept")
    snapshot = sandbox.snapshot()
    seen["snapshot"] = snapshot.status
    with sandbox_sdk.create_sandbox(source=sandbox_sdk.SnapshotSource(snapshot_id=snapshot.id)) as copy:
        seen["copy"] = copy.fs.read_text("kept.txt")
    seen["resumed"] = sandbox_sdk.resume_sandbox(name="python-sync").fs.read_text("kept.txt")
    sandbox.stop()
    seen["sessions"] = len(list(sandbox.list_sessions()))

print(json.dumps(seen))
