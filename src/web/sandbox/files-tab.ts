/** The files of a running sandbox: folders to walk through, text to read, and downloads. */

import { useEffect, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { useAnswer } from "../data/answer.ts";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { parameter, setParameters } from "../router.ts";
import { client, sentence } from "../session.ts";
import { date, size, visible } from "../text.ts";
import { plainText } from "./output.ts";
import type { TabProps } from "./sandbox-view.ts";

type File = Output<"statFile">;

/** most bytes of a file that the page shows */
const mostShown = 1 << 20;

export function FilesTab({ value: { state, session } }: TabProps) {
  const folder = parameter("folder") === "" ? session.cwd : parameter("folder");
  const [open, setOpen] = useState<File | undefined>(undefined);
  const params = { session: session.id };
  const isChanged = ({ type, sessionId }: { type: string; sessionId?: unknown }) =>
    type === "files.written" && sessionId === session.id;
  const answer = useAnswer(
    `${session.id} ${folder}`,
    (signal) => client.call("listFiles", { params, query: { path: folder }, signal }),
    isChanged,
  );
  if (state !== "running") return html`<p class="empty">Files can be read while the sandbox runs.</p>`;
  const files = (answer.value?.files ?? []).toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const walk = (path: string) => {
    setOpen(undefined);
    setParameters({ folder: path });
  };
  const upload = async (event: Event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement)) return;
    for (const file of field.files ?? []) {
      const query = { path: `${folder.replace(/\/$/, "")}/${file.name}` };
      const done = await act(`Cannot upload ${file.name}`, () =>
        client.call("writeFile", { params, query, bytes: file }),
      );
      if (done) say(`Uploaded ${file.name}`);
    }
    field.value = "";
    answer.reread();
  };
  return html`<div class="ph">
      <button type="button" onClick=${() => walk(parentOf(folder))} disabled=${folder === "/"}>Up</button>
      <b class="mono cut">${visible(folder)}</b>
      <label class="r">Upload <input type="file" multiple onChange=${upload} /></label>
    </div>
    <div class="split">
      <div class="pane">
        <${Unanswered} answer=${answer} />
        <ul class="commands" aria-label="Files">
          ${files.map(
            (each) => html`<li><button
              type="button" aria-pressed=${open?.path === each.path ? "true" : "false"}
              onClick=${() => (isFolder(each) ? walk(each.path) : setOpen(each))}
            >
              <span class="quiet" aria-label=${each.type} role="img">${isFolder(each) ? "▸" : "·"}</span>
              <span class="mono cut">${visible(each.name)}</span>
              <span class="num">${isFolder(each) ? "" : size(each.size)}</span>
              <span class="num">${each.mode.toString(8)}</span>
            </button></li>`,
          )}
        </ul>
      </div>
      <div class="pane">
        ${open ? html`<${Content} file=${open} session=${session.id} key=${open.path} />` : html`<p class="empty">Choose a file to read it.</p>`}
      </div>
    </div>`;
}

function Content({ file, session }: { file: File; session: string }) {
  const [text, setText] = useState<string | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const params = { session };
  useEffect(() => {
    const headers: Record<string, string> = file.size > 0 ? { range: `bytes=0-${mostShown - 1}` } : {};
    client.send("readFile", { params, query: { path: file.path }, headers }).then(
      async (response) => setText(plainText(await response.text())),
      (error) => setProblem(sentence(error)),
    );
  }, [file.path]);
  const download = async () => {
    const response = await act(`Cannot download ${file.name}`, () =>
      client.send("readFile", { params, query: { path: file.path } }),
    );
    if (!response) return;
    // Never a type that a browser would show as a page.
    const blob = new Blob([await response.arrayBuffer()], { type: "application/octet-stream" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = file.name;
    link.click();
    URL.revokeObjectURL(link.href);
  };
  return html`<div class="ph"><b class="mono cut">${visible(file.name)}</b><span>${size(file.size)}</span>
      <span class="cut">${visible(file.owner)} · ${date(file.modifiedAt)}</span>
      <button type="button" onClick=${download}>Download</button></div>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
    <pre class="output" tabindex="0" aria-label="Content">${text}</pre>
    ${file.size > mostShown && html`<p class="block">Only the first ${size(mostShown)} are shown.</p>`}`;
}

function isFolder({ type, targetType }: File): boolean {
  return type === "directory" || targetType === "directory";
}

function rank(file: File): number {
  return isFolder(file) ? 0 : 1;
}

function parentOf(path: string): string {
  const at = path.replace(/\/$/, "").lastIndexOf("/");
  return at <= 0 ? "/" : path.slice(0, at);
}
