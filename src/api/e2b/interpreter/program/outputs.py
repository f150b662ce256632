"""Turns Jupyter's messages into the lines that clients read."""

import time

#: media types with a field of their own in a result
FIELDS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "application/vnd.e2b.chart.v1+json": "chart",
    "application/vnd.e2b.data.v1+json": "data",
}


def line_of(kind, content):
    """The line of a message; None if clients do not read this kind."""
    if kind == "execute_input":
        return {"type": "number_of_executions", "execution_count": content["execution_count"]}
    if kind == "stream":
        return {"type": content["name"], "text": content["text"], "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    if kind in ("execute_result", "display_data"):
        return {"type": "result", "is_main_result": kind == "execute_result", **fields_of(content["data"])}
    if kind == "error":
        return {
            "type": "error",
            "name": content["ename"],
            "value": content["evalue"],
            "traceback": "\n".join(content["traceback"]),
        }
    return None


def fields_of(bundle):
    fields, extra = {}, {}
    for media_type, value in bundle.items():
        if media_type in FIELDS:
            fields[FIELDS[media_type]] = value
        else:
            extra[media_type] = value
    text = fields.get("text")
    if isinstance(text, str) and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        fields["text"] = text[1:-1]
    # Some kernels break a picture's base64 into lines.
    for name in ("png", "jpeg", "pdf"):
        if isinstance(fields.get(name), str):
            fields[name] = "".join(fields[name].split())
    return {**fields, **({"extra": extra} if extra else {})}
