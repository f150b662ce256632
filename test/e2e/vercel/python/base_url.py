"""Uses Vercel's Python SDK with an address and a key of its own, and asks a port as any Python program would."""

import json
import sys
import time
import urllib.request

from vercel.api import session
from vercel.sandbox import sync as sandbox_sdk

SERVER = "import http.server as h; h.HTTPServer(('', 3000), h.SimpleHTTPRequestHandler).serve_forever()"
base_url, key = sys.argv[1:]


def credentials():
    return sandbox_sdk.SandboxCredentials(token=key, team_id="team_default", project_id="prj_default")


def answer(url):
    for attempt in range(100):
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return response.read().decode()
        except OSError:
            if attempt == 99:
                raise
            time.sleep(0.1)


options = sandbox_sdk.SandboxServiceOptions(base_url=base_url, credentials_factory=credentials)
with session(service_options=[options]), sandbox_sdk.create_sandbox(ports=[3000]) as sandbox:
    sandbox.fs.write_text("index.html", "served")
    sandbox.create_process("python3", ["-c", SERVER])
    url = sandbox.routes[0].url
    print(json.dumps({"url": url, "answer": answer(url + "/index.html")}))
