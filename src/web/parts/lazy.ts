/** Views whose modules load when they are first shown, so that the first page is small. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { html } from "../html.ts";

export function Lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | undefined;
  return function LazyView(props: P) {
    const [view, setView] = useState<{ component: ComponentType<P> } | undefined>(loaded && { component: loaded });
    const [failed, setFailed] = useState(false);
    useEffect(() => {
      if (view) return;
      load().then(
        (component) => {
          loaded = component;
          setView({ component });
        },
        () => setFailed(true),
      );
    }, []);
    if (failed) return html`<p class="empty" role="alert">This page did not load. Load the dashboard again.</p>`;
    return view ? html`<${view.component} ...${props} />` : html`<p class="waiting" role="status">Loading …</p>`;
  };
}
