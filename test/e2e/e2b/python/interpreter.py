"""Uses the Python SDK of E2B's code interpreter as its users do, with and without async, and prints what it saw as JSON."""

import asyncio
import json

from e2b_code_interpreter import AsyncSandbox, Sandbox

seen = {}
CODE = "import sys\nprint('out')\nprint('err', file=sys.stderr)\nx = 6\nx * 7"


def shown(execution):
    return [execution.text, execution.logs.stdout, execution.logs.stderr, execution.execution_count]


def sync():
    sandbox = Sandbox.create(timeout=120)
    try:
        lines = []
        seen["run"] = shown(sandbox.run_code(CODE, on_stdout=lambda message: lines.append(message.line)))
        seen["streamed"] = lines
        error = sandbox.run_code("1 / 0").error
        seen["error"] = [error.name, error.value, "1 / 0" in error.traceback]
        seen["envs"] = sandbox.run_code("import os; os.environ['A']", envs={"A": "b"}).text
        context = sandbox.create_code_context(cwd="/tmp")
        seen["context"] = [context.language, context.cwd, sandbox.run_code("import os; os.getcwd()", context=context).text]
        seen["listed"] = context.id in [one.id for one in sandbox.list_code_contexts()]
        sandbox.restart_code_context(context)
        sandbox.remove_code_context(context)
        chart = {"type": "pie", "title": "t", "elements": [{"label": "l", "angle": 90, "radius": 1}]}
        show = f"display({{'application/vnd.e2b.chart.v1+json': {chart!r}, 'text/html': '<b>'}}, raw=True)"
        (result,) = sandbox.run_code(show).results
        seen["chart"] = [result.html, result.chart.type.value, result.chart.elements[0].label]
    finally:
        sandbox.kill()


async def main():
    sandbox = await AsyncSandbox.create(timeout=120)
    try:
        seen["async"] = shown(await sandbox.run_code(CODE))
        seen["languages"] = [
            (await sandbox.run_code("[1, 2].length", language="javascript")).text,
            (await sandbox.run_code("echo b", language="bash")).logs.stdout,
        ]
    finally:
        await sandbox.kill()


sync()
asyncio.run(main())
print(json.dumps(seen))
