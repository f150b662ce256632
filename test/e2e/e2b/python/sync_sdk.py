"""Uses E2B's Python SDK as its users do, without async, and prints what it saw as JSON."""

import json
import time

import e2b
from e2b import Sandbox, Template

seen = {}
sandbox = Sandbox.create(envs={"GREETING": "hello"}, metadata={"kind": "sync"}, timeout=120)
try:
    done = sandbox.commands.run("echo $GREETING; whoami; pwd; echo wrong >&2")
    seen["run"] = [done.exit_code, done.stdout, done.stderr]
    try:
        sandbox.commands.run("exit 3", user="root", cwd="/tmp")
    except e2b.CommandExitException as error:
        seen["failed"] = error.exit_code

    reader = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(reader.pid, "tëxt\n")
    seen["listed"] = reader.pid in [process.pid for process in sandbox.commands.list()]
    for stdout, _, _ in reader:
        seen["fed"] = stdout
        break
    seen["killed"] = [sandbox.commands.kill(reader.pid), sandbox.commands.kill(reader.pid)]

    sandbox.files.write("notes/a.txt", "first")
    sandbox.files.write_files([{"path": "notes/b.bin", "data": bytes(range(256))}, {"path": "/srv/c", "data": "c"}])
    seen["read"] = [
        sandbox.files.read("notes/a.txt"),
        bytes(sandbox.files.read("notes/b.bin", format="bytes")) == bytes(range(256)),
        b"".join(sandbox.files.read("/srv/c", format="stream")).decode(),
    ]
    seen["list"] = sorted(entry.name for entry in sandbox.files.list("notes"))
    seen["info"] = [sandbox.files.get_info("notes/a.txt").owner, sandbox.files.get_info("notes").type.value]
    seen["made"] = [sandbox.files.make_dir("new"), sandbox.files.make_dir("new")]
    seen["renamed"] = sandbox.files.rename("notes/a.txt", "new/d.txt").path

    watch = sandbox.files.watch_dir("new", recursive=True)
    sandbox.files.write("new/e.txt", "e")
    names = set()
    for _ in range(100):
        names |= {f"{event.type.value} {event.name}" for event in watch.get_new_events()}
        if "write e.txt" in names:
            break
        time.sleep(0.1)
    watch.stop()
    seen["watched"] = sorted(names)
    sandbox.files.remove("new")
    seen["exists"] = [sandbox.files.exists("notes/b.bin"), sandbox.files.exists("new")]

    shell = sandbox.pty.create(e2b.PtySize(rows=24, cols=80))
    sandbox.pty.resize(shell.pid, e2b.PtySize(rows=30, cols=100))
    sandbox.pty.send_stdin(shell.pid, b"stty size; exit\n")
    typed = b""
    try:
        shell.wait(on_pty=lambda data: globals().update(typed=typed + data))
    except e2b.CommandExitException:
        pass
    seen["pty"] = b"30 100" in typed
    seen["running"] = sandbox.is_running()
    seen["again"] = Sandbox.connect(sandbox.sandbox_id).files.read("/srv/c")
finally:
    seen["gone"] = [sandbox.kill(), sandbox.is_running()]
# A template, with files of this folder, is built, tagged and started.
with open("sent.txt", "w") as file:
    file.write("sent\n")
recipe = (
    Template(file_context_path=".")
    .from_base_image()
    .set_envs({"GREETING": "hello"})
    .run_cmd("echo $GREETING > made.txt")
    .copy("sent.txt", "sent.txt", mode=0o600)
    .set_start_cmd("sleep 1000", "test -f made.txt")
)
lines = []
before = Template.exists("python-sync")
built = Template.build(recipe, "python-sync:v1", cpu_count=1, memory_mb=512, on_build_logs=lambda line: lines.append(line.message))
Template.assign_tags("python-sync:v1", ["stable"])
made = Sandbox.create("python-sync:stable")
try:
    seen["template"] = [
        before,
        Template.exists("python-sync"),
        (made.commands.run("cat made.txt sent.txt; stat -c %a sent.txt; pgrep -cx sleep")).stdout,
        len(lines) > 3,
    ]
finally:
    made.kill()
try:
    Template.build(Template().from_base_image().run_cmd("exit 3"), "python-sync")
except e2b.BuildException as error:
    seen["broken"] = "exit code 3" in str(error)
background = Template.build_in_background(Template().from_template("python-sync:v1"), "python-sync")
while (Template.get_build_status(background)).status.value in ("building", "waiting"):
    time.sleep(0.1)
seen["status"] = (Template.get_build_status(background)).status.value
print(json.dumps(seen))
