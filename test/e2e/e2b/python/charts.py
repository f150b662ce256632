"""Draws one figure of each kind, and prints their charts as JSON. The folder of the module is its argument."""

import datetime
import json
import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

sys.path.insert(0, sys.argv[1])
from charts import chart_of_figure  # noqa: E402

charts = {}


def show(name):
    charts[name] = chart_of_figure(plt.gcf())
    plt.close("all")


plt.plot([1, 2, 3], [4, float("nan"), 6], label="first")
plt.plot([1, 2], [1, 2])
plt.title("Lines")
plt.xlabel("Time (s)")
plt.ylabel("Speed")
plt.yscale("log")
show("line")

plt.plot([datetime.datetime(2026, 1, day) for day in (1, 2)], [1, 2])
show("dates")

plt.scatter([1, 2], [3, 4.5], label="dots")
show("scatter")

plt.bar(["a", "b"], [1, 2], label="one")
plt.bar(["a", "b"], [3, 4], bottom=[1, 2], label="two")
show("bar")

plt.barh(["up", "down"], [5, 6])
show("across")

plt.pie([1, 3], labels=["small", "large"])
show("pie")

plt.boxplot([[1, 2, 3, 4, 5, 20], [2, 3, 4]])
plt.xticks([1, 2], ["A", "B"])
show("box")

plt.boxplot([[1, 2, 3, 4, 5]], orientation="horizontal", patch_artist=True)
show("filled")

figure, (left, right) = plt.subplots(1, 2)
left.plot([1], [2])
right.bar(["x"], [1])
figure.suptitle("Both")
show("super")

plt.imshow([[1, 2], [3, 4]])
show("picture")

print(json.dumps(charts, allow_nan=False))
