/** The program of the code interpreter, and how it comes into a sandbox: over standard input, to a Python that runs it. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { packageFolder } from "../../../base/files/package-folder.ts";

const folder = join(packageFolder, "src/api/e2b/interpreter/program");

/** the command that reads the program's files, as JSON, and runs it */
export const command = {
  name: "python3",
  args: [
    "-c",
    [
      "import importlib.util, json, os, runpy, sys, tempfile",
      "files = json.load(sys.stdin)",
      'importlib.util.find_spec("ipykernel") or sys.exit("its image has no ipykernel")',
      'sys.path[0] = folder = tempfile.mkdtemp(prefix="interpreter-")',
      'for name in files: open(os.path.join(folder, name), "w").write(files[name])',
      "sys.dont_write_bytecode = True",
      'runpy.run_path(os.path.join(folder, "server.py"), run_name="__main__")',
    ].join("\n"),
  ],
};

/** what the program prints when it accepts connections */
export const readyLine = "listening\n";

let files: Promise<Buffer> | undefined;

/** the program's files; read once */
export function program(): Promise<Buffer> {
  files ??= read();
  return files;
}

async function read(): Promise<Buffer> {
  const names = (await readdir(folder)).filter((name) => /\.(py|mjs)$/.test(name));
  const entries = names.map(async (name) => [name, await readFile(join(folder, name), "utf8")] as const);
  return Buffer.from(JSON.stringify(Object.fromEntries(await Promise.all(entries))));
}
