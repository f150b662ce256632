/** A line of an egress log: what a program wanted to reach, and whether it was allowed. */

import type { ComponentChildren } from "preact";
import { type Line, type Verdict, verdictOf } from "../egress/verdict.ts";
import { html } from "../html.ts";
import { clock, date, size, visible } from "../text.ts";
import { Icon } from "./icon.ts";

const marks: Record<Exclude<Verdict, "refused">, string> = { allowed: "✓", failed: "✕", closed: "·", unseen: "…" };

interface ConnectionProps {
  line: Line;
  /** what stands before its host, such as the sandbox */
  from?: ComponentChildren;
  /** a way to the command that made it */
  by?: ComponentChildren;
  /** a way to allow it */
  children?: ComponentChildren;
}

export function Connection({ line, from, by, children }: ConnectionProps) {
  const text = (name: string) => visible(typeof line[name] === "string" ? line[name] : "");
  const number = (name: string) => (typeof line[name] === "number" ? line[name] : 0);
  const verdict = verdictOf(line);
  const isRefused = verdict === "refused";
  const count = number("count");
  const request = [text("protocol"), text("method"), text("path"), count > 1 ? `×${count}` : ""];
  const words = [request.filter((word) => word !== "").join(" "), text("program")].filter((word) => word !== "");
  const missing = number("dropped") + number("forgotten");
  const why = isRefused ? text("reason") : text("failure");
  return html`<li class=${isRefused ? "refused" : ""}>
    <span class="when" title=${date(number("at"))}>${clock(number("at"))}</span>
    <span class=${isRefused ? "verdict fail" : "verdict"}>${isRefused ? html`<${Icon} name="refused" />` : marks[verdict]}<span class="unseen">${verdict}</span></span>
    ${
      verdict === "unseen"
        ? html`<span class="quiet">${from} ${missing} ${line.dropped === undefined ? "lines that are no longer kept" : "decisions, too many at once"}</span>`
        : html`<span class="mono cut">${from} ${placeOf(line)} <span class="quiet">${words.join(" · ")}</span></span>
          ${by}
          <span class="num quiet">${number("ended") > 0 ? `${size(number("bytesIn"))} / ${size(number("bytesOut"))}` : ""}</span>`
    }
    ${why !== "" && html`<span class=${isRefused ? "because why" : "because quiet"}>${why}</span>`}
    ${children}
  </li>`;
}

/** the host and port of a line */
export function placeOf({ name, address, port }: Line): string {
  const host = [name, address].find((each) => typeof each === "string" && each !== "") ?? "";
  return visible(`${String(host)}${typeof port === "number" && port > 0 ? `:${port}` : ""}`);
}
