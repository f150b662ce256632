/** How programs use a sandbox, or make one, over each API. The daemon writes the lines, since each API has its own words. */

import { binding } from "../session.ts";
import { type Answer, useAnswer } from "./answer.ts";
import type { Sandbox } from "./live.ts";

export interface Example {
  title: string;
  text: string;
}

export function useExamples(sandbox?: Sandbox): Answer<readonly Example[]> {
  const about = sandbox && { name: sandbox.name, id: sandbox.id, sessionId: sandbox.session.id };
  const query = new URLSearchParams(about).toString();
  return useAnswer(query, async (signal) => {
    const response = await fetch(`/ui/examples?${query}`, { headers: { "x-sandkeep-session": binding() }, signal });
    if (!response.ok) throw new Error("refused");
    const { examples } = (await response.json()) as { examples: Example[] }; // src/api/dashboard/dashboard.ts
    return examples;
  });
}
