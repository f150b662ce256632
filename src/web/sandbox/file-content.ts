/** One file of a sandbox: its text to read and change, a picture, and a download. Nothing of it ever runs in this page. */

import { useEffect, useState } from "preact/hooks";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Question } from "../parts/dialog.ts";
import { client, sentence } from "../session.ts";
import { date, size, visible } from "../text.ts";
import { download, Move } from "./file-acts.ts";
import type { File } from "./files-tab.ts";
import { plainText } from "./output.ts";
import { pictureType } from "./pictures.ts";

/** most bytes of a file that the page shows or changes */
const mostShown = 1 << 20;

interface Content {
  /** undefined for a picture */
  text?: string;
  /** address of a picture's bytes, inside this page */
  picture?: string;
  /** whether writing the text back would keep every byte */
  isExact: boolean;
}

interface ContentProps {
  file: File;
  session: string;
  /** called when the file was deleted */
  gone: () => void;
  /** called with its new path when it was moved */
  moved: (path: string) => void;
}

export function FileContent({ file, session, gone, moved }: ContentProps) {
  const [content, setContent] = useState<Content | undefined>(undefined);
  const [problem, setProblem] = useState("");
  const [draft, setDraft] = useState<string | undefined>(undefined);
  const [asking, setAsking] = useState<"delete" | "move" | undefined>(undefined);
  const params = { session };
  const query = { path: file.path };
  useEffect(() => {
    let picture: string | undefined;
    const headers: Record<string, string> = file.size > 0 ? { range: `bytes=0-${mostShown - 1}` } : {};
    client.send("readFile", { params, query, headers }).then(
      async (response) => {
        const bytes = new Uint8Array(await response.arrayBuffer());
        const type = file.size <= mostShown ? pictureType(bytes) : undefined;
        if (type !== undefined) picture = URL.createObjectURL(new Blob([bytes], { type }));
        setContent(picture === undefined ? textOf(bytes) : { picture, isExact: false });
      },
      (error) => setProblem(sentence(error)),
    );
    return () => picture !== undefined && URL.revokeObjectURL(picture);
  }, [file.path]);
  const save = async () => {
    if (draft === undefined) return;
    const done = await act(`Cannot write ${file.name}`, () =>
      client.call("writeFile", { params, query, bytes: new TextEncoder().encode(draft) }),
    );
    if (!done) return;
    setContent({ text: draft, isExact: true });
    setDraft(undefined);
    say(`Wrote ${file.name}`);
  };
  const remove = async () => {
    const done = await act(`Cannot delete ${file.name}`, async () => {
      await client.call("removeFile", { params, query });
      return true;
    });
    if (done) gone();
  };
  const canEdit = content?.isExact === true && file.size <= mostShown && file.type === "file";
  return html`<div class="ph wraps"><b class="mono cut">${visible(file.name)}</b><span class="num">${size(file.size)}</span>
      <span class="cut quiet">${visible(file.owner)} · ${date(file.modifiedAt)}</span>
      <span class="gap"></span>
      ${
        draft === undefined
          ? html`${canEdit && html`<button type="button" class="small" onClick=${() => setDraft(content?.text ?? "")}>Edit</button>`}
              <button type="button" class="small" onClick=${() => void download(session, file.path)}>Download</button>
              <button type="button" class="small" onClick=${() => setAsking("move")}>Move…</button>
              <button type="button" class="small danger" onClick=${() => setAsking("delete")}>Delete…</button>`
          : html`<button type="button" class="small primary" onClick=${save}>Save</button>
              <button type="button" class="small" onClick=${() => setDraft(undefined)}>Cancel</button>`
      }
    </div>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
    ${
      draft === undefined
        ? content?.picture
          ? html`<div class="picture"><img src=${content.picture} alt=${visible(file.name)} /></div>`
          : html`<pre class="output" role="group" tabindex="0" aria-label="Content">${content && plainText(content.text ?? "")}</pre>`
        : html`<textarea class="output edit" aria-label=${`Content of ${visible(file.name)}`} spellcheck=${false} value=${draft}
            onInput=${(event: InputEvent) => setDraft((event.target as HTMLTextAreaElement).value)}></textarea>`
    }
    ${file.size > mostShown && html`<p class="note">Only the first ${size(mostShown)} are shown.</p>`}
    ${
      asking === "move" &&
      html`<${Move} session=${session} path=${file.path} close=${() => setAsking(undefined)} moved=${moved} />`
    }
    ${
      asking === "delete" &&
      html`<${Question} title=${`Delete ${visible(file.name)}`} verb="Delete" text=${`${visible(file.path)} is lost.`}
        close=${() => setAsking(undefined)} act=${() => void remove()} />`
    }`;
}

function textOf(bytes: Uint8Array): Content {
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    // A text field would change these line ends.
    return { text, isExact: !text.includes("\r") && !text.includes("\0") };
  } catch {
    return { text: new TextDecoder().decode(bytes), isExact: false };
  }
}
