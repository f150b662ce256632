/** The team and the project of this page, each with the others to choose from where there are any. */

import { addressIn } from "../data/standing.ts";
import { html } from "../html.ts";
import { go, parts } from "../router.ts";
import { standing } from "../session.ts";
import { visible } from "../text.ts";
import { act } from "./acts.ts";

export function PlaceSwitch() {
  if (!standing.value) return null;
  const { team, teams, project, projects } = standing.value;
  const move = async (toTeam: string, toProject?: string) => {
    // The thing that this page shows is not in the other project.
    const [page = ""] = parts.value;
    const address = await act("Cannot go there", () => addressIn(toTeam, toProject, page));
    if (address !== undefined) go(address);
  };
  const projectNames = projects.map(({ name }) => name);
  return html`
    ${teams.length > 1 && html`<${Choice} label="Team" value=${team} names=${teams.map(({ slug }) => slug)} choose=${(name: string) => void move(name)} />`}
    ${(teams.length > 1 || projects.length > 1) && html`<${Choice} label="Project" value=${project} names=${projectNames} choose=${(name: string) => void move(team, name)} />`}`;
}

interface ChoiceProps {
  label: string;
  value: string;
  names: readonly string[];
  choose: (name: string) => void;
}

function Choice({ label, value, names, choose }: ChoiceProps) {
  const only = html`<span class="place" title=${label}>${visible(value)}</span>`;
  const several = html`<select class="place" aria-label=${label} value=${value}
    onChange=${(event: Event) => choose((event.target as HTMLSelectElement).value)}
  >${names.map((name) => html`<option value=${name}>${visible(name)}</option>`)}</select>`;
  return html`${names.length > 1 ? several : only}<i aria-hidden="true">/</i>`;
}

/** whose key this browser is signed in with, and what it may do */
export function Whose() {
  if (!standing.value) return null;
  const { team, project, key, admin, readOnly } = standing.value;
  const name = key ? visible(key.name) : "no key";
  const may = admin ? "may act for every team" : readOnly ? "may only read" : "may read and change";
  return html`<span class="whose cut" title=${`Key ${name}, which ${may}. This page is about the project ${visible(project)} of the team ${visible(team)}.`}>
    <span class="unseen">Signed in with the key </span>${name}${readOnly && html` <em>read only</em>`}</span>`;
}
