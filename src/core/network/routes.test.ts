/** What labels lead to, over a real store; the machines are made up. */

import { PassThrough } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { newSandbox } from "../../../test/conformance/store/host.ts";
import { openStore } from "../../store/sql-store.ts";
import type { Context } from "../context.ts";
import { labelOf } from "../model/sandbox-label.ts";
import { Routes, systemRoute } from "./routes.ts";

async function privateSandbox() {
  const store = await openStore({ path: ":memory:" });
  onTestFinished(() => store.close());
  // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the name of a place in this text
  const ingress = { anyPort: true, isPrivate: true, host: "masked:${PORT}" };
  const made = await newSandbox(store, { ingress, state: "running", routes: [{ port: 3000, subdomain: "sb-web" }] });
  const runtime = { machine: () => ({ connect: async () => new PassThrough() }) };
  const routes = new Routes({ store, runtime } as unknown as Context, async () => made.session.id);
  return { ...made, routes, label: labelOf(made.sandbox.id) };
}

test("a private sandbox is private under every name of its ports", async () => {
  const { routes, session, label } = await privateSandbox();
  const names = { [`80-${label}`]: "masked:80", "sb-web": undefined, [systemRoute(session).subdomain]: undefined };
  for (const [name, host] of Object.entries(names)) {
    expect((await routes.connect(name)).port, name).toEqual({ sandbox: label, isPrivate: true, host });
  }
});

test("a port has one name by its number", async () => {
  const { routes, label } = await privateSandbox();
  for (const port of ["080", "00080", "0", "00000", "65536", "100000"]) {
    await expect(routes.connect(`${port}-${label}`), port).rejects.toMatchObject({ code: "not-found" });
  }
});
