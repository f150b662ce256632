/** The daemon's line to the egress process, as far as one that does not read it is concerned. */

import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { expect, onTestFinished, test, vi } from "vitest";
import { tempDir } from "../../test/harness/harness.ts";
import { openControl } from "./control.ts";
import { Actors } from "./log/actors.ts";

test("a daemon that has stopped reading is not asked any more, so that nothing piles up for it", async () => {
  const actors = new Actors();
  const path = join(await tempDir(), "egress.sock");
  const unused = async () => undefined;
  const server = await openControl(path, {
    setPolicy: unused,
    dropPolicy: unused,
    keepPolicies: unused,
    flush: unused,
    configure: unused,
    actors,
  });
  onTestFinished(() => void server.close());
  const daemon = connect(path).pause();
  onTestFinished(() => void daemon.destroy());
  await once(server, "connection");
  // Nobody gives up for having waited: what ends a search here is that nobody could be asked.
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const ancestry = Array.from({ length: 64 }, () => [4_000_000, 4_000_000, Date.now()]);
  const given: object[] = [];
  for (let id = 1; id <= 1000 && given.length === 0; id++) {
    void actors.find("m", id).actor.then((actor) => given.push(actor));
    actors.found(id, { program: "curl", ancestry });
    void actors.settled("m");
    await turn();
  }
  expect(given[0]).toEqual({ program: "curl" });
});
