"""Uses E2B's Python SDK as its users do, with async, and prints what it saw as JSON."""

import asyncio
import json
import os
import sys

import e2b
from e2b import AsyncSandbox, AsyncTemplate


async def main():
    seen = {}
    sandbox = await AsyncSandbox.create(envs={"GREETING": "hello"}, metadata={"kind": "async"}, timeout=120)
    try:
        done = await sandbox.commands.run("echo $GREETING; whoami; pwd; echo wrong >&2")
        seen["run"] = [done.exit_code, done.stdout, done.stderr]
        try:
            await sandbox.commands.run("exit 3", user="root", cwd="/tmp")
        except e2b.CommandExitException as error:
            seen["failed"] = error.exit_code

        fed = asyncio.Queue()
        reader = await sandbox.commands.run("cat", background=True, stdin=True, on_stdout=fed.put)
        await sandbox.commands.send_stdin(reader.pid, "tëxt\n")
        seen["listed"] = reader.pid in [process.pid for process in await sandbox.commands.list()]
        seen["fed"] = await asyncio.wait_for(fed.get(), 30)
        seen["killed"] = [await sandbox.commands.kill(reader.pid), await sandbox.commands.kill(reader.pid)]

        files = sandbox.files
        await files.write("notes/a.txt", "first")
        await files.write_files([{"path": "notes/b.bin", "data": bytes(range(256))}, {"path": "/srv/c", "data": "c"}])
        streamed = b""
        async for piece in await files.read("/srv/c", format="stream"):
            streamed += piece
        seen["read"] = [
            await files.read("notes/a.txt"),
            bytes(await files.read("notes/b.bin", format="bytes")) == bytes(range(256)),
            streamed.decode(),
        ]
        seen["list"] = sorted(entry.name for entry in await files.list("notes"))
        facts = [await files.get_info("notes/a.txt"), await files.get_info("notes")]
        seen["info"] = [facts[0].owner, facts[1].type.value]
        seen["made"] = [await files.make_dir("new"), await files.make_dir("new")]
        seen["renamed"] = (await files.rename("notes/a.txt", "new/d.txt")).path

        events = asyncio.Queue()
        watch = await files.watch_dir("new", on_event=events.put, recursive=True)
        await files.write("new/e.txt", "e")
        names = set()
        while "write e.txt" not in names:
            event = await asyncio.wait_for(events.get(), 30)
            names.add(f"{event.type.value} {event.name}")
        await watch.stop()
        seen["watched"] = sorted(names)
        await files.remove("new")
        seen["exists"] = [await files.exists("notes/b.bin"), await files.exists("new")]

        typed = []
        shell = await sandbox.pty.create(e2b.PtySize(rows=24, cols=80), on_data=typed.append)
        await sandbox.pty.resize(shell.pid, e2b.PtySize(rows=30, cols=100))
        await sandbox.pty.send_stdin(shell.pid, b"stty size; exit\n")
        try:
            await shell.wait()
        except e2b.CommandExitException:
            pass
        seen["pty"] = b"30 100" in b"".join(typed)
        seen["running"] = await sandbox.is_running()
        seen["again"] = await (await AsyncSandbox.connect(sandbox.sandbox_id)).files.read("/srv/c")
    finally:
        seen["gone"] = [await sandbox.kill(), await sandbox.is_running()]
    # A template, with files of this folder, is built, tagged and started.
    with open("sent.txt", "w") as file:
        file.write("sent\n")
    recipe = (
        AsyncTemplate(file_context_path=".")
        .from_base_image()
        .set_envs({"GREETING": "hello"})
        .run_cmd("echo $GREETING > made.txt")
        .copy("sent.txt", "sent.txt", mode=0o600)
        .set_start_cmd("sleep 1000", "test -f made.txt")
    )
    lines = []
    before = await AsyncTemplate.exists("python-async")
    built = await AsyncTemplate.build(recipe, "python-async:v1", cpu_count=1, memory_mb=512, on_build_logs=lambda line: lines.append(line.message))
    await AsyncTemplate.assign_tags("python-async:v1", ["stable"])
    made = await AsyncSandbox.create("python-async:stable")
    try:
        seen["template"] = [
            before,
            await AsyncTemplate.exists("python-async"),
            (await made.commands.run("cat made.txt sent.txt; stat -c %a sent.txt; pgrep -cx sleep")).stdout,
            len(lines) > 3,
        ]
    finally:
        await made.kill()
    try:
        await AsyncTemplate.build(AsyncTemplate().from_base_image().run_cmd("exit 3"), "python-async")
    except e2b.BuildException as error:
        seen["broken"] = "exit code 3" in str(error)
    background = await AsyncTemplate.build_in_background(AsyncTemplate().from_template("python-async:v1"), "python-async")
    while (await AsyncTemplate.get_build_status(background)).status.value in ("building", "waiting"):
        await asyncio.sleep(0.1)
    seen["status"] = (await AsyncTemplate.get_build_status(background)).status.value
    print(json.dumps(seen))


asyncio.run(main())
sys.stdout.flush()
# The SDK's HTTP client has threads of its own. On a busy machine they abort the process if they call Python while it ends.
os._exit(0)
