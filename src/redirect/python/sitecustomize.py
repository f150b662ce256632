"""Python's counterpart of preload.mjs, which Python loads at its start when PYTHONPATH names this folder.

Vercel's Python SDK has Vercel's address built in. This module sends the SDK's requests to the daemon at SANDKEEP_URL:

    https://vercel.com/api/..., https://vercel.com/.well-known/...   to SANDKEEP_URL, same path
    https://api.vercel.com/...                                       to SANDKEEP_URL/api/...
    https://<subdomain>.vercel.run/...                               to SANDKEEP_URL, for <subdomain>.<SANDKEEP_DOMAIN>
    https://<host and port of SANDKEEP_URL>/health                   to SANDKEEP_URL/health

The SDK sends with httpx (httpx2 in its later versions), so the transports of both are wrapped when a program imports
them. Names below .localhost resolve to the loopback address, which most C libraries leave to browsers. Every other
call passes untouched, and a sitecustomize module that this one hides is loaded as well.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import re
import socket
import sys
from urllib.parse import urlsplit

_libraries = ("httpx", "httpx2")


class _Daemon:
    """Where the daemon is, and which of a program's requests go there."""

    def __init__(self, address, domain):
        self.scheme, self.host, self.port, self.domain = address.scheme, address.hostname, address.port, domain
        self.prefix = address.path.rstrip("/").encode()

    def target(self, url):
        """Returns the path (bytes) at the daemon and the Host header for a request, or None to leave it alone."""
        if url.scheme != "https":
            return None
        path = url.raw_path
        route = re.split(rb"[?#]", path, maxsplit=1)[0]
        own = self._authority(self.host)
        if route == b"/health" and _same_host(url.host, self.host) and url.port in (None, self.port):
            return self.prefix + path, own
        if url.port is not None:
            return None
        if url.host == "vercel.com" and re.match(rb"/(api|\.well-known)(/|$)", route):
            return self.prefix + path, own
        if url.host == "api.vercel.com":
            return self.prefix + b"/api" + path, own
        label = re.fullmatch(r"([^.]+)\.vercel\.run", url.host)
        return (path, self._authority(f"{label[1]}.{self.domain}")) if label else None

    def _authority(self, host):
        host = f"[{host}]" if ":" in host else host
        return host if self.port is None else f"{host}:{self.port}"

    def request(self, library, request):
        """Returns the request to send instead, or None."""
        found = self.target(request.url)
        if found is None:
            return None
        path, host = found
        # The address is built from its parts: a path such as //example.com can never become a host.
        url = library.URL(scheme=self.scheme, host=self.host, port=self.port, raw_path=path)
        headers = [(name, value) for name, value in request.headers.raw if name.lower() != b"host"]
        # The daemon then names ports below .localhost, which this module makes resolvable.
        headers[:0] = [(b"host", host.encode()), (b"sandkeep-resolves", b"localhost")]
        extensions = {name: value for name, value in request.extensions.items() if name != "sni_hostname"}
        return library.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)


def _same_host(one, other):
    loopback = ("127.0.0.1", "localhost", "::1")
    return one == other or (one in loopback and other in loopback)


def _wrap(library, daemon):
    """Wraps the transports of httpx or httpx2, so that redirects which the library follows are redirected, too."""
    sync_transport, async_transport = library.HTTPTransport, library.AsyncHTTPTransport
    handle, handle_async = sync_transport.handle_request, async_transport.handle_async_request
    close, aclose = sync_transport.close, async_transport.aclose

    def handle_request(self, request):
        ours = daemon.request(library, request)
        return handle(self, request) if ours is None else handle(_direct(self, sync_transport), ours)

    async def handle_async_request(self, request):
        ours = daemon.request(library, request)
        return await (handle_async(self, request) if ours is None else handle_async(_direct(self, async_transport), ours))

    def close_both(self):
        try:
            close(self)
        finally:
            if "_sandkeep_direct" in vars(self):
                close(self._sandkeep_direct)

    async def aclose_both(self):
        try:
            await aclose(self)
        finally:
            if "_sandkeep_direct" in vars(self):
                await aclose(self._sandkeep_direct)

    sync_transport.handle_request, sync_transport.close = handle_request, close_both
    async_transport.handle_async_request, async_transport.aclose = handle_async_request, aclose_both


def _direct(transport, kind):
    """Returns the transport itself, or one without a proxy beside it: no proxy leads to the daemon."""
    if "Proxy" not in type(getattr(transport, "_pool", None)).__name__:
        return transport
    if "_sandkeep_direct" not in vars(transport):
        transport._sandkeep_direct = kind(trust_env=False)
    return transport._sandkeep_direct


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps a library's transports when a program imports the library."""

    def __init__(self, daemon):
        self._daemon = daemon

    def find_spec(self, name, path=None, target=None):
        if name not in _libraries:
            return None
        others = (finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec"))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target))), None)
        execute = getattr(spec and spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            _wrap(module, self._daemon)

        spec.loader.exec_module = exec_module
        return spec


def _resolve_localhost():
    resolve = socket.getaddrinfo

    def getaddrinfo(host, *args, **kwargs):
        name = host.decode("ascii", "replace") if isinstance(host, bytes) else host
        is_local = isinstance(name, str) and name.rstrip(".").lower().endswith(".localhost")
        return resolve("localhost" if is_local else host, *args, **kwargs)

    socket.getaddrinfo = getaddrinfo


def _install():
    setting = os.environ.get("SANDKEEP_URL", "")
    if not setting:
        return
    address = urlsplit(setting)
    if address.scheme not in ("http", "https") or not address.hostname:
        sentence = f'Cannot redirect to SANDKEEP_URL "{setting}": it must be a URL that begins with http:// or https://'
        print(f"sandkeep/redirect: {sentence}", file=sys.stderr)
        return
    os.environ.setdefault("VERCEL_TELEMETRY_DISABLED", "1")
    daemon = _Daemon(address, os.environ.get("SANDKEEP_DOMAIN") or "localhost")
    sys.meta_path.insert(0, _Finder(daemon))
    _resolve_localhost()


def _load_hidden():
    """Loads the sitecustomize module that Python would have loaded without this one."""
    here = os.path.realpath(os.path.dirname(__file__))
    elsewhere = [path for path in sys.path if os.path.realpath(path or ".") != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_install()
_load_hidden()
