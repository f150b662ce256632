/**
 * The files of a running sandbox: folders to walk through, what changed since a snapshot, uploads by dropping, and one file to
 * read or change.
 */

import { useRef, useState } from "preact/hooks";
import type { Output } from "../../client/types.ts";
import { type Answer, useAnswer } from "../data/answer.ts";
import { type ChangedFiles, goneFrom, useChangedFiles } from "../data/changed-files.ts";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Unanswered } from "../parts/answered.ts";
import { parameter, setParameters } from "../router.ts";
import { client } from "../session.ts";
import { counted, date, size, visible } from "../text.ts";
import { download, Move } from "./file-acts.ts";
import { FileContent } from "./file-content.ts";
import type { TabProps } from "./sandbox-view.ts";

export type File = Output<"statFile">;

export function FilesTab({ value: { name: sandbox, state, session, currentSnapshotId }, history }: TabProps) {
  const folder = parameter("folder") === "" ? session.cwd : parameter("folder");
  const [open, setOpen] = useState<File | undefined>(undefined);
  const [isOver, setOver] = useState(false);
  const [isMoving, setMoving] = useState(false);
  const since = parameter("since");
  const params = { session: session.id };
  const isRunning = state === "running";
  /** how often a caller has written files, after which they are compared again */
  const written = useRef(0);
  const isChanged = ({ type, sessionId }: { type: string; sessionId?: unknown }) =>
    type === "files.written" && sessionId === session.id;
  const answer = useAnswer(
    `${session.id} ${folder} ${isRunning}`,
    async (signal) =>
      isRunning ? client.call("listFiles", { params, query: { path: folder }, signal }) : { files: [] },
    (event) => {
      if (isChanged(event)) written.current++;
      return isChanged(event);
    },
  );
  const changed = useChangedFiles(sandbox, isRunning ? since : "", written.current);
  if (!isRunning) return html`<p class="empty">Files can be read while the sandbox runs.</p>`;
  const files = (answer.value?.files ?? []).toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
  const walk = (path: string) => {
    setOpen(undefined);
    setParameters({ folder: path });
  };
  /** opens a folder, or a file in its folder */
  const jump = async (path: string) => {
    const file = await act(`Cannot open ${visible(path)}`, () => client.call("statFile", { params, query: { path } }));
    if (!file) return;
    walk(isFolder(file) ? file.path : parentOf(file.path));
    if (!isFolder(file)) setOpen(file);
  };
  const submitted = (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    void jump(String(new FormData(form).get("path") ?? ""));
    form.reset();
  };
  const upload = async (given: Iterable<globalThis.File>) => {
    for (const file of given) {
      const query = { path: `${folder.replace(/\/$/, "")}/${file.name}` };
      const done = await act(`Cannot upload ${file.name}`, () =>
        client.call("writeFile", { params, query, bytes: file }),
      );
      if (done) say(`Uploaded ${file.name}`);
    }
    answer.reread();
  };
  const chosen = (event: Event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement)) return;
    void upload([...(field.files ?? [])]).then(() => {
      field.value = "";
    });
  };
  const drop = {
    onDragOver: (event: DragEvent) => {
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: () => setOver(false),
    onDrop: (event: DragEvent) => {
      event.preventDefault();
      setOver(false);
      void upload(event.dataTransfer?.files ?? []);
    },
  };
  const makeFolder = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const path = `${folder.replace(/\/$/, "")}/${String(new FormData(form).get("name") ?? "")}`;
    await act("Cannot make the folder", () => client.call("makeDirectory", { params, body: { path } }));
    form.reset();
    answer.reread();
  };
  return html`<div class="ph wraps">
      <button type="button" class="small" onClick=${() => walk(parentOf(folder))} disabled=${folder === "/"}>Up</button>
      <${Path} folder=${folder} walk=${walk} />
      <form class="jump" onSubmit=${submitted}><label class="unseen" for="jump">Go to path</label>
        <input id="jump" name="path" class="mono" required data-key="/" placeholder="go to path" autocomplete="off" spellcheck=${false} /></form>
      <button type="button" class="small r" onClick=${() => setParameters({ tab: "terminal", shell: "", cwd: folder })}>Terminal here</button>
      <label class="upload">Upload <input type="file" multiple onChange=${chosen} /></label>
      ${folder !== "/" && html`<button type="button" class="small" onClick=${() => setMoving(true)}>Move folder…</button>`}
      <button type="button" class="small" title="The folder as an archive" onClick=${() => void download(session.id, folder, true)}>Get as .tar.gz</button>
    </div>
    <${Since} chosen=${since} snapshots=${history.value?.snapshots ?? []} current=${currentSnapshotId} changed=${changed} />
    ${isMoving && html`<${Move} session=${session.id} path=${folder} close=${() => setMoving(false)} moved=${walk} />`}
    <div class="split">
      <div class=${isOver ? "pane over" : "pane"} ...${drop}>
        <${Unanswered} answer=${answer} />
        ${answer.value && files.length === 0 && html`<p class="empty">This folder is empty. Drop files here to upload them.</p>`}
        <ul class="commands files" aria-label="Files">
          ${files.map(
            (each) => html`<li key=${each.path}><button
              type="button" aria-pressed=${open?.path === each.path ? "true" : "false"}
              onClick=${() => (isFolder(each) ? walk(each.path) : setOpen(each))}
            >
              <span class="quiet" aria-label=${each.type} role="img">${isFolder(each) ? "▸" : "·"}</span>
              <span class="mono cut">${visible(each.name)}${each.target !== null && html`<span class="quiet"> → ${visible(each.target)}</span>`}</span>
              <span>${changed.value && html`<${Mark} file=${each} changed=${changed.value} />`}</span>
              <span class="num">${isFolder(each) ? "" : size(each.size)}</span>
              <span class="num quiet">${modeWords(each.mode)}</span>
            </button></li>`,
          )}
          ${
            changed.value &&
            goneFrom(folder, changed.value).map(
              (name) =>
                html`<li key=${`gone ${name}`} class="gone"><span class="fail" aria-hidden="true">−</span> <s class="mono cut">${visible(name)}</s> <span class="fail">removed</span></li>`,
            )
          }
        </ul>
        <form class="run quietly" onSubmit=${makeFolder}>
          <label class="unseen" for="new-folder">New folder</label>
          <input id="new-folder" name="name" required placeholder="new folder" autocomplete="off" pattern="[^\\/]+" />
          <button type="submit" class="small">Make</button>
        </form>
      </div>
      <div class="pane">
        ${
          open
            ? html`<${FileContent} file=${open} session=${session.id} key=${open.path} gone=${() => {
                setOpen(undefined);
                answer.reread();
              }} moved=${(path: string) => {
                answer.reread();
                void jump(path);
              }} />`
            : html`<p class="empty">Choose a file to read it. Drop files on the list to upload them.</p>`
        }
      </div>
    </div>`;
}

interface SinceProps {
  chosen: string;
  snapshots: readonly { id: string; name: string | null; createdAt: number }[];
  current: string | null;
  changed: Answer<ChangedFiles | undefined>;
}

/** chooses the snapshot with which the files are compared */
function Since({ chosen, snapshots, current, changed: { value, problem } }: SinceProps) {
  if (snapshots.length === 0) return null;
  const choose = (event: Event) => setParameters({ since: (event.target as HTMLSelectElement).value });
  return html`<div class="ph"><label for="since">Changed since</label>
    <select id="since" value=${chosen} onChange=${choose}>
      <option value="">no snapshot</option>
      ${snapshots.map(({ id, name, createdAt }) => html`<option value=${id}>${visible(name ?? date(createdAt))}${id === current ? " (next session)" : ""}</option>`)}
    </select>
    ${chosen !== "" && !value && problem === "" && html`<span role="status">Comparing …</span>`}
    ${problem !== "" && html`<span class="problem" role="alert">${problem}</span>`}
    ${value && html`<span role="status">${counted(value.changes.size, "change")}${value.isCut ? " or more" : ""}</span>`}
  </div>`;
}

/** says how a file differs, or that something in a folder does */
function Mark({ file: { path }, changed: { changes, folders } }: { file: File; changed: ChangedFiles }) {
  const change = changes.get(path);
  if (change === "added") return html`<b class="run" title="added">+<span class="unseen"> added</span></b>`;
  if (change === undefined && !folders.has(path)) return null;
  return html`<b class="busy" title="changed">●<span class="unseen"> changed</span></b>`;
}

/** the folders on the way, each a button */
function Path({ folder, walk }: { folder: string; walk: (path: string) => void }) {
  const names = folder.split("/").filter((name) => name !== "");
  return html`<span class="path mono cut"><button type="button" class="plain" aria-label="Root folder" onClick=${() => walk("/")}>/</button>${names.map(
    (name, at) =>
      html`<button type="button" class="plain" onClick=${() => walk(`/${names.slice(0, at + 1).join("/")}`)}>${visible(name)}</button><i>/</i>`,
  )}</span>`;
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

/** "rw-r--r--" */
export function modeWords(mode: number): string {
  return [6, 3, 0]
    .flatMap((shift) => [...("rwx" as string)].map((letter, at) => ((mode >> shift) & (4 >> at) ? letter : "-")))
    .join("");
}
