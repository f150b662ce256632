/** The form for a new sandbox. */

import { reread } from "../data/live.ts";
import { html } from "../html.ts";
import { go, pathOf } from "../router.ts";
import { client } from "../session.ts";
import { act } from "./acts.ts";
import { Dialog } from "./dialog.ts";

interface NewProps {
  /** the image that the form begins with */
  image?: string;
  close: () => void;
}

export function NewSandbox({ image: given = "", close }: NewProps) {
  const submitted = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.target instanceof HTMLFormElement)) return;
    const form = new FormData(event.target);
    const field = (name: string) => String(form.get(name) ?? "").trim();
    close();
    const [name, image, networkPolicy] = [field("name"), field("image"), field("network")];
    const body = {
      ...(name !== "" && { name }),
      ...(image !== "" && { image }),
      ...(networkPolicy !== "" && { networkPolicy }),
    };
    const made = await act("Cannot create the sandbox", () => client.call("createSandbox", { body }));
    if (!made) return;
    await reread(made.name);
    go(pathOf("sandboxes", made.name));
  };
  return html`<${Dialog} title="New sandbox" close=${close}>
    <form class="fields" onSubmit=${submitted}>
      <label for="new-name">Name</label>
      <input id="new-name" name="name" placeholder="chosen for you" pattern="[A-Za-z0-9][A-Za-z0-9._\\-]{0,127}" />
      <label for="new-image">Image</label>
      <input id="new-image" name="image" placeholder="default" defaultValue=${given} />
      <label for="new-network">Network</label>
      <input id="new-network" name="network" placeholder="allow-all, deny-all, or domains" />
      <div class="acts">
        <button type="submit" class="primary">Create</button>
        <button type="button" onClick=${close}>Cancel</button>
      </div>
    </form>
  <//>`;
}
