"""A Python kernel: ipykernel with the settings and the extra output formats that clients of the interpreter expect."""

import os
import sys

# Its import takes a third of the kernel's start, and no client of the interpreter debugs.
sys.modules["debugpy"] = None

PROGRAM = os.path.dirname(os.path.abspath(__file__))
CHART = "application/vnd.e2b.chart.v1+json"
DATA = "application/vnd.e2b.data.v1+json"


def main():
    from ipykernel.kernelapp import IPKernelApp

    # As with `python -m`, modules are found in the working directory, and not beside this program.
    sys.path[0] = ""
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    app = IPKernelApp.instance()
    app.initialize(
        [
            *sys.argv[1:],
            "--log-level=40",
            "--InteractiveShell.colors=NoColor",
            "--HistoryManager.enabled=False",
            "--IPKernelApp.capture_fd_output=True",
        ]
    )
    Environment.install(app.shell)
    bundles = app.shell.display_formatter.mimebundle_formatter
    bundles.for_type_by_name("matplotlib.figure", "Figure", chart_of)
    bundles.for_type_by_name("pandas.core.frame", "DataFrame", data_of)
    app.start()


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


def charts():
    """Loads the module beside this file without a change of the search path that the user's code has."""
    if "sandkeep_charts" not in sys.modules:
        from importlib.util import module_from_spec, spec_from_file_location

        spec = spec_from_file_location("sandkeep_charts", os.path.join(PROGRAM, "charts.py"))
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["sandkeep_charts"] = module
    return sys.modules["sandkeep_charts"]


if __name__ == "__main__":
    main()
