/** What people do with a file or a folder besides reading it: move it, and save it on their own disk. */

import { ApiError } from "../../client/client.ts";
import { html } from "../html.ts";
import { act, say } from "../parts/acts.ts";
import { Dialog } from "../parts/dialog.ts";
import { binding, client } from "../session.ts";
import { visible } from "../text.ts";

interface MoveProps {
  session: string;
  path: string;
  close: () => void;
  /** called with the new path */
  moved: (path: string) => void;
}

/** asks for a new path, which may have another folder */
export function Move({ session, path, close, moved }: MoveProps) {
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = event.target;
    if (!(form instanceof HTMLFormElement)) return;
    const to = String(new FormData(form).get("to") ?? "").trim();
    close();
    if (to === "" || to === path) return;
    const done = await act(`Cannot move ${visible(path)}`, () =>
      client.call("moveFile", { params: { session }, body: { from: path, to } }),
    );
    if (!done) return;
    say(`Moved to ${visible(done.path)}`);
    moved(done.path);
  };
  return html`<${Dialog} title="Move or rename" close=${close}>
    <form class="fields" onSubmit=${submit}>
      <label for="move-to">New path of ${visible(path)}</label>
      <input id="move-to" name="to" class="mono" required autocomplete="off" spellcheck=${false} value=${path} />
      <p class="quiet">Missing folders are made. A file that is there already is replaced.</p>
      <div class="acts">
        <button type="submit" class="primary">Move</button>
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}

/**
 * lets the browser save a file, or a folder as an archive. It asks for an address that is valid once, because a download by
 * the browser itself carries no header of this page, and a file of any size must not pass through the page's memory
 */
export async function download(session: string, path: string, archive = false): Promise<void> {
  const address = await act(`Cannot download ${visible(path)}`, async () => {
    const response = await fetch("/ui/downloads", {
      method: "POST",
      headers: { "x-sandkeep-session": binding(), "content-type": "application/json" },
      body: JSON.stringify({ session, path, archive }),
    });
    const answer = (await response.json()) as { address?: string; error?: { code: string; message: string } }; // src/api/dashboard/downloads.ts
    if (answer.address === undefined) {
      throw new ApiError(response.status, answer.error ?? { code: "unknown", message: "The daemon gave no address" });
    }
    return answer.address;
  });
  if (address === undefined) return;
  const link = document.createElement("a");
  link.href = address;
  // With a name, the browser saves whatever comes, and never leaves this page.
  link.download = "";
  link.click();
}
