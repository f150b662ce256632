/** Views whose modules load when they are first shown, so that the first page is small. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.ts";

type LazyView<P> = ComponentType<P> & {
  /** loads it now, so that it shows at once later */
  prepare: () => void;
};

/** loads a view before it is shown, because people type as soon as they have opened it, and after what is shown now */
export function usePrepared({ prepare }: { prepare: () => void }): void {
  useEffect(() => {
    const timer = setTimeout(prepare, 0);
    return () => clearTimeout(timer);
  }, []);
}

/** `isQuiet`: nothing is in its place until it has loaded */
export function Lazy<P extends object>(load: () => Promise<ComponentType<P>>, isQuiet = false): LazyView<P> {
  let loaded: ComponentType<P> | undefined;
  const prepared = async () => {
    loaded = await load();
    return loaded;
  };
  // A module that does not load says so when its view is shown.
  const prepare = () => void prepared().catch(() => undefined);
  return Object.assign(View, { prepare });

  function View(props: P) {
    const [view, setView] = useState<{ component: ComponentType<P> } | undefined>(loaded && { component: loaded });
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (view) return;
      prepared().then(
        (component) => setView({ component }),
        () => setFailed(true),
      );
    }, []);
    if (failed) return html`<p class="empty" role="alert">This page did not load. Load the dashboard again.</p>`;
    if (view) return html`<${view.component} ...${props} />`;
    return isQuiet ? null : html`<p class="waiting" role="status">Loading …</p>`;
  }
}
