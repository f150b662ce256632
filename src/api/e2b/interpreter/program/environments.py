"""Code that sets variables for one execution and puts back what was there, in the languages of Jupyter's kernels."""

import json


def python(variables):
    names = f"get_ipython().sandkeep_set_environment({variables!r})"
    return names, "get_ipython().sandkeep_restore_environment()"


def r(variables):
    names = ", ".join(json.dumps(name) for name in variables)
    pairs = ", ".join(f"{json.dumps(name)} = {quoted(value)}" for name, value in variables.items())
    before = 'getOption("sandkeep.before")'
    back = "if (is.na(old[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(old[name]))"
    return (
        f"options(sandkeep.before = Sys.getenv(c({names}), names = TRUE, unset = NA)); invisible(Sys.setenv({pairs}))",
        f"local({{ old <- {before}; for (name in names(old)) {back}; options(sandkeep.before = NULL) }})",
    )


def java(variables):
    """A process of Java cannot change its environment, so these are properties of the system."""
    names = {name: json.dumps(name) for name in variables}
    return (
        "".join(f"System.setProperty({names[name]}, {json.dumps(value)});" for name, value in variables.items()),
        "".join(f"System.clearProperty({name});" for name in names.values()),
    )


def quoted(value):
    return json.dumps(value, ensure_ascii=False)


#: by language
ENVIRONMENTS = {"python": python, "r": r, "java": java}
