/**
 * The image of `sandkeep image build code-interpreter`, and what the vendor's documents show for it, through the vendor's
 * own SDK. Slow, because it needs a package mirror and minutes.
 */

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { Sandbox } from "@e2b/code-interpreter";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandkeepCommand } from "../../harness/package.ts";
import { outOfReach } from "../../runner/excuses.ts";
import { demand } from "../../runner/needs.ts";
import { sandboxOf, useDaemon } from "./e2b.ts";

const run = promisify(execFile);
const daemon = daemonOfFile({ SANDKEEP_POOL_HOT: "0" });
useDaemon(daemon);
let isReached = true;

beforeAll(async () => {
  demand("root", "the guest binary", "the command mmdebstrap");
  const { dataDir, runDir } = daemon();
  const places = ["--data-dir", dataDir, "--run-dir", runDir];
  await run(sandkeepCommand(), ["image", "build", "code-interpreter", ...places]).catch((error: Error) => {
    isReached = !/Could not (resolve|connect)|Failed to fetch|Temporary failure/i.test(error.message);
    if (isReached) throw error;
  });
}, 1_800_000);
beforeEach((context) => context.skip(!isReached, outOfReach("Debian's archive")));

const made = sandboxOf(() => Sandbox.create({ timeoutMs: 1_200_000 }));
const sandbox = () => made() as Sandbox;
/** the result of code that shows one thing */
async function shown(code: string) {
  const { results, error } = await sandbox().runCode(code, { timeoutMs: 120_000 });
  if (error) throw new Error(error.traceback);
  return results[0];
}

test("the default template of the SDK is the image, with Jupyter's kernel and libraries for data", async () => {
  expect(await sandbox().getInfo()).toMatchObject({ templateId: "code-interpreter-v1" });
  const modules = [
    ...["ipykernel", "numpy", "pandas", "scipy", "sklearn", "joblib", "statsmodels.api", "sympy", "networkx", "xarray"],
    ...["nltk", "matplotlib", "seaborn", "plotly", "PIL", "skimage", "imageio", "openpyxl", "xlrd", "xlsxwriter"],
    ...["docx", "pypdf", "lxml", "h5py", "yaml", "soundfile", "requests", "aiohttp", "bs4", "pytest", "tabulate"],
    ...["tqdm", "pytz"],
  ];
  expect((await shown(`import ${modules.join(", ")}; "all"`))?.text).toBe("all");
  expect((await sandbox().commands.run("whoami; pwd")).stdout).toBe("user\n/home/user\n");
});

test("a figure that pyplot shows is a picture with the data of its chart", async () => {
  const bars = await shown(`
    import matplotlib.pyplot as plt
    plt.bar(["a", "b"], [3, 5], label="sold")
    plt.xlabel("Who")
    plt.ylabel("Weight (kg)")
    plt.title("Bars")
    plt.tight_layout()
    plt.show()
  `);
  expect(bars?.png).toMatch(/^iVBOR/);
  expect(bars?.chart).toMatchObject({
    ...{ type: "bar", title: "Bars", x_label: "Who", y_label: "Weight (kg)", y_unit: "kg" },
    elements: [
      { label: "a", value: 3, group: "sold" },
      { label: "b", value: 5, group: "sold" },
    ],
  });
  const both = await shown(`
    import numpy as np
    figure, (left, right) = plt.subplots(1, 2)
    left.plot(np.arange(3), np.arange(3) ** 2)
    right.scatter([1], [2])
    plt.show()
  `);
  expect(both?.chart).toMatchObject({ type: "superchart", elements: [{ type: "line" }, { type: "scatter" }] });
});

test("an uploaded file becomes a data frame, whose columns are data, and its plot a chart", async () => {
  await sandbox().files.write("/home/user/data.csv", "name,score\nx,1\ny,2.5\n");
  const frame = await shown("import pandas as pd\ndf = pd.read_csv('data.csv')\ndf");
  expect(frame).toMatchObject({ data: { name: ["x", "y"], score: [1, 2.5] }, isMainResult: true });
  expect(frame?.html).toContain("<table");
  expect(frame?.text).toContain("score");
  const plot = await shown("df.plot(x='name', y='score', kind='bar'); plt.show()");
  expect(plot?.chart).toMatchObject({ type: "bar", elements: [{ label: "x", value: 1 }, { value: 2.5 }] });
  expect((await sandbox().runCode("df.to_csv('out.csv', index=False)")).error).toBeUndefined();
  expect(await sandbox().files.read("out.csv")).toBe("name,score\nx,1.0\ny,2.5\n");
});

test("the libraries for data work together: a fit, its chart, a formula and an interactive chart", async () => {
  const fit = await shown(`
    import numpy as np, pandas as pd, seaborn as sns, matplotlib.pyplot as plt
    from sklearn.linear_model import LinearRegression
    from scipy import stats
    x = np.arange(20.0)
    frame = pd.DataFrame({"x": x, "y": 3 * x + 1})
    model = LinearRegression().fit(frame[["x"]], frame["y"])
    round(model.coef_[0], 6), round(model.intercept_, 6), round(stats.linregress(x, frame["y"]).slope, 6)
  `);
  expect(fit?.text).toBe("(3.0, 1.0, 3.0)");
  const chart = await shown("sns.scatterplot(data=frame, x='x', y='y'); plt.show()");
  expect(chart).toMatchObject({ png: expect.stringMatching(/^iVBOR/), chart: { type: "scatter", x_label: "x" } });
  expect((await shown("import sympy; sympy.integrate(sympy.Symbol('x') ** 2)"))?.latex).toContain("x^{3}");
  const plotly = await shown("import plotly.express as px; px.line(frame, x='x', y='y')");
  expect(plotly?.html ?? JSON.stringify(plotly?.extra)).toMatch(/plotly/i);
});

test("pictures of Pillow are results when they are shown, saved or the last value", async () => {
  const make = "from PIL import Image\nimage = Image.new('RGB', (2, 2), 'red')\n";
  for (const use of ["image.show()", "image.save('red.png')", "image"]) {
    const { results, error } = await sandbox().runCode(make + use);
    expect([use, error, results.map(({ png }) => png?.slice(0, 5))]).toEqual([use, undefined, ["iVBOR"]]);
  }
  expect(await sandbox().files.read("red.png")).toContain("PNG");
});

test("a shell line of the code runs pip, and what it installs is found", async () => {
  const setup = "from setuptools import setup; setup(name='own-package', version='1', py_modules=['own_package'])";
  await sandbox().files.write("package/setup.py", setup);
  await sandbox().files.write("package/own_package.py", "answer = 42");
  const { logs, text } = await sandbox().runCode(
    "!pip install --no-build-isolation --no-deps ./package\nimport own_package; own_package.answer",
    { timeoutMs: 120_000 },
  );
  expect([text, logs.stdout.join("")]).toEqual(["42", expect.stringContaining("Successfully installed own-package")]);
});
