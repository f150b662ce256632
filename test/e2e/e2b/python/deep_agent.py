"""A deep agent of LangChain that works in a sandbox, with and without async.

The model is one of LangChain's own that answers from a list: it asks for one tool after another.
"""

import asyncio
import json

import e2b
from deepagents import create_deep_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_e2b import AsyncE2BSandbox, E2BSandbox


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def call(name, **args):
    return AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": f"call_{name}_{len(json.dumps(args))}"}])


def agent(backend):
    steps = [
        call("write_file", file_path="/home/user/plan.txt", content="one\ntwö\nthree\n"),
        call("edit_file", file_path="/home/user/plan.txt", old_string="one", new_string="first"),
        call("read_file", file_path="/home/user/plan.txt"),
        call("grep", pattern="twö", path="/home/user"),
        call("glob", pattern="*.txt", path="/home/user"),
        call("ls", path="/home/user"),
        call("execute", command="wc -l < plan.txt; pwd; id -un; echo oh >&2; exit 3"),
        AIMessage(content="done"),
    ]
    return create_deep_agent(model=Model(messages=iter(steps)), backend=backend)


question = {"messages": [HumanMessage("Write a plan")]}


def said(answer):
    tools = {message.name: message.content for message in answer["messages"] if message.type == "tool"}
    return {
        "last": answer["messages"][-1].content,
        "read": [word in tools["read_file"] for word in ("first", "twö", "three")],
        "found": ["plan.txt" in tools[name] for name in ("grep", "glob", "ls")],
        "execute": [word in tools["execute"] for word in ("3\n/home/user\nuser", "oh", "exit code 3")],
    }


def files(uploaded, downloaded):
    return {
        "uploaded": [each.error for each in uploaded],
        "downloaded": [[each.content and each.content.hex()[:8], each.error] for each in downloaded],
    }


given = [("/home/user/deep/er/bytes.bin", b"\x00\xff\x01\x02" * 300_000), ("/home/user", b"x")]
wanted = ["/home/user/deep/er/bytes.bin", "/home/user/none", "/home/user", "relative"]


def without_async():
    sandbox = e2b.Sandbox.create(timeout=120)
    backend = E2BSandbox(sandbox=sandbox)
    result = said(agent(backend).invoke(question)) | files(backend.upload_files(given), backend.download_files(wanted))
    again = E2BSandbox(sandbox=e2b.Sandbox.connect(backend.id))
    result["same"] = again.execute("cat plan.txt").output.startswith("first")
    result["late"] = again.execute("sleep 20", timeout=1).exit_code
    sandbox.kill()
    result["gone"] = again.execute("true").exit_code
    return result


async def with_async():
    sandbox = await e2b.AsyncSandbox.create(timeout=120)
    backend = AsyncE2BSandbox(sandbox=sandbox)
    result = said(await agent(backend).ainvoke(question))
    result |= files(await backend.aupload_files(given), await backend.adownload_files(wanted))
    again = AsyncE2BSandbox(sandbox=await e2b.AsyncSandbox.connect(backend.id))
    result["same"] = (await again.aexecute("cat plan.txt")).output.startswith("first")
    result["late"] = (await again.aexecute("sleep 20", timeout=1)).exit_code
    await sandbox.kill()
    result["gone"] = (await again.aexecute("true")).exit_code
    return result


print(json.dumps([without_async(), asyncio.run(with_async())]))
