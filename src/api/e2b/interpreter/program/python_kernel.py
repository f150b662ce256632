"""
A Python kernel: ipykernel with the settings and the extra output formats that clients of the interpreter expect. Loading
ipykernel takes most of a kernel's start, so one process loads it and forks a kernel for each order that it receives:

  order    {"number", "file", "cwd"}       to start a kernel, with its connection file and directory
  answer   {"number", "pid"}               when it has begun, from the kernel itself
  answer   {"number", "status"}            when it has ended; a negative status is a signal

Each is a packet of JSON. The end of the connection ends the process and its kernels.
"""

import gc
import json
import math
import os
import signal
import site
import socket
import sys
import types
from functools import wraps
from importlib.util import find_spec

PROGRAM = os.path.dirname(os.path.abspath(__file__))
CHART = "application/vnd.e2b.chart.v1+json"
DATA = "application/vnd.e2b.data.v1+json"
#: most values of a list or dictionary that is shown as JSON, too
MOST_VALUES = 100_000


def load():
    """Imports ipykernel without its debugger, completions and terminal: half of the time, and no client uses them."""
    embed = types.ModuleType("IPython.terminal.embed")
    embed.embed = embed_later
    skipped = {"debugpy": None, "jedi": None, "IPython.terminal.embed": embed}
    sys.modules.update(skipped)
    import ipykernel.kernelapp  # noqa: F401

    # What the user's code imports is the real one.
    for name in skipped:
        sys.modules.pop(name, None)


def embed_later(**options):
    from IPython.terminal.embed import embed

    embed(**options)


def serve(channel):
    """Forks kernels until the connection ends. Returns only in a kernel, with its order."""
    numbers = {}

    def reap(*_):
        for pid, number in list(numbers.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del numbers[pid]
                tell(channel, number=number, status=os.waitstatus_to_exitcode(status))

    signal.signal(signal.SIGCHLD, reap)
    # Memory that a collection has not touched stays shared with the kernels.
    gc.collect()
    gc.freeze()
    while data := channel.recv(1 << 16):
        order = json.loads(data)
        # A kernel is noted before its end is seen.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            # A session of its own, so that an interrupt reaches the children of the code too.
            os.setsid()
            tell(channel, number=order["number"], pid=os.getpid())
            channel.close()
            return order
        numbers[pid] = order["number"]
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    for pid in numbers:
        os.killpg(pid, signal.SIGKILL)
    os._exit(0)


def tell(channel, **message):
    try:
        channel.send(json.dumps(message).encode())
    except OSError:
        pass  # The server has ended, and this process ends at its next read.


def run(file, cwd):
    from ipykernel.kernelapp import IPKernelApp

    os.chdir(cwd)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    forget_program()
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    sys.argv[:] = ["ipykernel", "-f", file]
    app = IPKernelApp.instance()
    app.initialize(
        [
            f"--IPKernelApp.connection_file={file}",
            # It ends with the process that forked it.
            f"--IPKernelApp.parent_handle={os.getppid()}",
            "--log-level=40",
            "--InteractiveShell.colors=NoColor",
            "--HistoryManager.enabled=False",
            "--IPKernelApp.capture_fd_output=True",
        ]
    )
    Environment.install(app.shell)
    sys.meta_path.insert(0, PictureFinder())
    bundles = app.shell.display_formatter.mimebundle_formatter
    bundles.for_type_by_name("matplotlib.figure", "Figure", chart_of)
    bundles.for_type_by_name("pandas.core.frame", "DataFrame", data_of)
    for kind in (list, dict):
        app.shell.display_formatter.formatters["application/json"].for_type(kind, json_of)
    app.start()


def forget_program():
    """Gives the user's code a Python as new: its modules are found in the working directory, and not beside this file."""
    sys.path[0] = ""
    sys.dont_write_bytecode = bool(sys.flags.dont_write_bytecode)
    for name, module in list(sys.modules.items()):
        if name != "__main__" and os.path.dirname(getattr(module, "__file__", None) or "") == PROGRAM:
            del sys.modules[name]
    # Packages that the user installs later are found, although the folder was not there when Python started.
    if site.ENABLE_USER_SITE:
        folder = site.getusersitepackages()
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError:
            return
        if folder not in sys.path:
            site.addsitedir(folder)


class Environment:
    """Variables of one execution; what they replaced comes back afterwards."""

    def __init__(self):
        self.before = {}

    @classmethod
    def install(cls, shell):
        environment = cls()
        shell.sandkeep_set_environment = environment.set
        shell.sandkeep_restore_environment = environment.restore

    def set(self, variables):
        self.before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)

    def restore(self):
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self.before = {}


class PictureFinder:
    """Changes Pillow when the user's code imports it: pictures that are shown, or saved under a name, become results."""

    def find_spec(self, name, path, target=None):
        if name != "PIL.Image":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(name)
        if spec is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (execute(module), show_pictures(module.Image))
        return spec


def show_pictures(image):
    from IPython.display import display

    save = image.save

    def save_and_show(self, fp, format=None, **parameters):
        save(self, fp, format, **parameters)
        if isinstance(fp, (str, os.PathLike)):
            display(self)

    image.save = wraps(save)(save_and_show)
    image.show = lambda self, title=None: display(self)


def chart_of(figure, include=None, exclude=None):
    """The figure's chart; a figure that cannot be described is shown as a picture only."""
    try:
        chart = charts().chart_of_figure(figure)
    except Exception:
        return {}
    return {} if chart is None else {CHART: chart}


def data_of(frame, include=None, exclude=None):
    """The columns of a data frame, as lists; of a large one only the picture."""
    try:
        if frame.size > 100_000:
            return {}
        return {DATA: {str(name): [charts().plain(cell) for cell in frame[name]] for name in frame.columns}}
    except Exception:
        return {}


def json_of(value):
    """A list or a dictionary as JSON; None if it is large, or has values that JSON has no form for."""
    if hasattr(type(value), "_repr_json_"):
        return value._repr_json_()
    try:
        return plain_tree(value, [MOST_VALUES])
    except (TypeError, ValueError, RecursionError):
        return None


def plain_tree(value, room):
    room[0] -= 1
    if room[0] < 0:
        raise ValueError("There are too many values")
    if hasattr(value, "tolist"):
        # Of NumPy.
        value = value.tolist()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name_of(name): plain_tree(each, room) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_tree(each, room) for each in value]
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError("JSON has no form for this value")


def name_of(key):
    """A key as a text, as JSON would write its value."""
    if isinstance(key, str):
        return key
    plain = plain_tree(key, [1])
    return plain if isinstance(plain, str) else json.dumps(plain)


def charts():
    """Loads the module beside this file without a change of the search path that the user's code has."""
    if "sandkeep_charts" not in sys.modules:
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("sandkeep_charts", os.path.join(PROGRAM, "charts.py"))
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["sandkeep_charts"] = module
    return sys.modules["sandkeep_charts"]


def main(channel):
    order = serve(channel)
    run(order["file"], order["cwd"])


if __name__ == "__main__":
    load()
    main(socket.socket(fileno=int(sys.argv[1])))
