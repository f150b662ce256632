"""Describes matplotlib figures as data: lines, points, bars, wedges and boxes, with their labels, ticks and scales."""

import math
import re

#: most points, bars and the like in one chart; a larger one is shown as a picture only
LARGEST = 50_000
#: how far two coordinates of the same thing may be apart, relative to their size
NEAR = 1e-9


class TooLarge(Exception):
    """The figure has more in it than a chart should carry."""


def chart_of_figure(figure):
    """The chart of a figure, several as a superchart; None if it shows nothing that has a chart."""
    charts = [chart for chart in (chart_of_axes(axes) for axes in figure.axes) if chart is not None]
    if sum(len(chart["elements"]) for chart in charts) > LARGEST:
        raise TooLarge
    if len(charts) <= 1:
        return charts[0] if charts else None
    title = figure._suptitle.get_text() if figure._suptitle is not None else ""
    return {"type": "superchart", "title": title, "elements": charts}


def chart_of_axes(axes):
    for describe in (pie, boxes, bars, scatter, lines):
        chart = describe(axes)
        if chart is not None:
            return chart
    return None


def pie(axes):
    wedges = [patch for patch in axes.patches if type(patch).__name__ == "Wedge"]
    if not wedges:
        return None
    # Each wedge's label is among the texts, in the same order; percentages follow their label.
    names = [wedge.get_label() for wedge in wedges]
    elements = [
        {"label": label(name), "angle": plain(wedge.theta2 - wedge.theta1), "radius": plain(wedge.r)}
        for wedge, name in zip(wedges, names)
    ]
    return {"type": "pie", "title": axes.get_title(), "elements": elements}


def bars(axes):
    containers = [one for one in axes.containers if type(one).__name__ == "BarContainer" and len(one.patches) > 0]
    if not containers:
        return None
    is_across = getattr(containers[0], "orientation", "vertical") == "horizontal"
    ticks = tick_names(axes.yaxis if is_across else axes.xaxis)
    elements = []
    for container in containers:
        for patch in container.patches:
            start, size = (patch.get_y(), patch.get_height()) if is_across else (patch.get_x(), patch.get_width())
            value = patch.get_width() if is_across else patch.get_height()
            group = label(container.get_label())
            elements.append({"label": name_at(ticks, start, size), "value": plain(value), "group": group})
    return {"type": "bar", **described(axes), "elements": elements}


def scatter(axes):
    collections = [one for one in axes.collections if type(one).__name__ == "PathCollection"]
    if not collections:
        return None
    x, y = value_of(axes.xaxis), value_of(axes.yaxis)
    elements = [
        {"label": label(one.get_label()), "points": points((x(a), y(b)) for a, b in one.get_offsets().tolist())}
        for one in collections
    ]
    return {"type": "scatter", **described(axes), **scales(axes), "elements": elements}


def lines(axes):
    drawn = [line for line in axes.lines if len(line.get_xdata()) > 0]
    if not drawn:
        return None
    elements = [
        {"label": label(line.get_label()), "points": points(zip(line.get_xdata(orig=True), line.get_ydata(orig=True)))}
        for line in drawn
    ]
    return {"type": "line", **described(axes), **scales(axes), "elements": elements}


def boxes(axes):
    """Box plots: matplotlib draws them with lines, so each is found by its rectangle."""
    strokes = [[(float(x), float(y)) for x, y in line.get_xydata().tolist()] for line in axes.lines]
    outlines = [one for one in strokes if is_rectangle(one)]
    outlines += [one for one in map(outline_of, axes.patches) if one is not None and is_rectangle(one)]
    for is_across in (False, True):
        turned = [[(y, x) for x, y in one] for one in outlines] if is_across else outlines
        others = [[(y, x) for x, y in one] for one in strokes] if is_across else strokes
        found = [box_of(outline, others) for outline in turned]
        if found and all(found):
            ticks = tick_names(axes.yaxis if is_across else axes.xaxis)
            elements = [{"label": name_at(ticks, box.pop("centre"), 0), **box} for box in found]
            return {"type": "box_and_whisker", **described(axes), "elements": elements}
    return None


def box_of(outline, strokes):
    """The numbers of an upright box; None if it has no median or whiskers, and so is none."""
    left, right = min(x for x, _ in outline), max(x for x, _ in outline)
    first, third = min(y for _, y in outline), max(y for _, y in outline)
    centre = (left + right) / 2
    pairs = [stroke for stroke in strokes if len(stroke) == 2]
    flat = [a[1] for a, b in pairs if near(a[1], b[1]) and near(min(a[0], b[0]), left) and near(max(a[0], b[0]), right)]
    medians = [y for y in flat if first - NEAR <= y <= third + NEAR]
    upright = [sorted((a[1], b[1])) for a, b in pairs if near(a[0], centre) and near(b[0], centre)]
    lower = [low for low, high in upright if near(high, first)]
    upper = [high for low, high in upright if near(low, third)]
    if not medians or not lower or not upper:
        return None
    low, high = min(lower), max(upper)
    # Points beyond the whiskers; a whisker's ends are not beyond it.
    beyond = [y for stroke in strokes for x, y in stroke if near(x, centre) and not low - NEAR <= y <= high + NEAR]
    return {
        "centre": centre,
        "min": plain(low),
        "first_quartile": plain(first),
        "median": plain(medians[0]),
        "third_quartile": plain(third),
        "max": plain(high),
        "outliers": [plain(y) for y in beyond],
    }


def is_rectangle(stroke):
    if len(stroke) != 5 or stroke[0] != stroke[4]:
        return False
    return len({x for x, _ in stroke}) == 2 and len({y for _, y in stroke}) == 2


def outline_of(patch):
    """The corners of a filled box, closed."""
    if type(patch).__name__ != "PathPatch":
        return None
    corners = [(float(x), float(y)) for x, y in patch.get_path().vertices[:4].tolist()]
    return [*corners, corners[0]] if len(corners) == 4 else None


def described(axes):
    x, y = axes.get_xlabel(), axes.get_ylabel()
    return {"title": axes.get_title(), "x_label": x, "y_label": y, "x_unit": unit(x), "y_unit": unit(y)}


def unit(text):
    """What a label has in brackets at its end, such as "s" of "Time (s)"."""
    found = re.search(r"[(\[]([^()\[\]]+)[)\]]\s*$", text)
    return found.group(1) if found else None


def scales(axes):
    described = {}
    for name, axis in (("x", axes.xaxis), ("y", axes.yaxis)):
        value = value_of(axis)
        described[f"{name}_ticks"] = [value(tick) for tick in axis.get_ticklocs()]
        described[f"{name}_tick_labels"] = [text.get_text() for text in axis.get_ticklabels()]
        described[f"{name}_scale"] = scale_of(axis)
    return described


def scale_of(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    name = type(converter).__name__
    if "Date" in name:
        return "datetime"
    return "categorical" if "Category" in name else axis.get_scale()


def value_of(axis):
    """How numbers of an axis read outside of matplotlib."""
    scale = scale_of(axis)
    if scale == "datetime":
        from matplotlib.dates import num2date

        return lambda number: num2date(number).replace(tzinfo=None).isoformat()
    if scale == "categorical":
        names = tick_names(axis)
        return lambda number: name_at(names, number, 0)
    return plain


def tick_names(axis):
    return list(zip([float(tick) for tick in axis.get_ticklocs()], [text.get_text() for text in axis.get_ticklabels()]))


def name_at(ticks, start, size):
    """The name of the tick below a bar, or the number of its centre."""
    centre, margin = start + size / 2, abs(size) / 2 + NEAR
    at = [(abs(place - centre), name) for place, name in ticks if name and abs(place - centre) <= margin]
    return min(at)[1] if at else str(plain(round(centre, 9)))


def points(pairs):
    listed = [[plain(x), plain(y)] for x, y in pairs]
    if len(listed) > LARGEST:
        raise TooLarge
    return listed


def label(text):
    """Names that matplotlib gives to things without one begin with an underscore."""
    return "" if str(text).startswith("_") else str(text)


def near(one, other):
    return math.isclose(one, other, rel_tol=NEAR, abs_tol=NEAR)


def plain(value):
    """A value that JSON has: a number or a text; None for what is not a number."""
    if hasattr(value, "item"):
        value = value.item()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, bool) or value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)
