/** Older kernels need other ways of naming the layers; each way works on a newer kernel too, so all are tested. */

import { describe, expect, test } from "vitest";
import { sh } from "../conformance/runtime/run.ts";
import { linuxHost } from "../harness/linux-host.ts";

describe.each(["descriptor", "name", "list"])("with layers named by %s", (way) => {
  const host = linuxHost({ egressEnv: { SANDKEEP_OVERLAY: way } });

  test("machines boot, are captured and boot from the snapshot", async () => {
    const first = await host().boot();
    await sh(first, "mv /usr/share/doc /usr/share/moved && echo kept > /kept");
    const { snapshot } = await first.stop({ snapshot: true });
    const second = await host().boot({ root: { snapshot: snapshot?.id ?? "" } });
    const { stdout } = await sh(second, "cat /kept; ls -d /usr/share/doc; ls -d /usr/share/moved");
    expect(stdout).toBe("kept\n/usr/share/moved\n");
    await second.stop();
  });

  test("the error for a missing layer names it", async () => {
    const machine = await host().boot();
    const { snapshot } = await machine.stop({ snapshot: true });
    await host().runtime.layers.discard(snapshot?.layers ?? []);
    await expect(host().boot({ root: { snapshot: snapshot?.id ?? "" } })).rejects.toMatchObject({ code: "not-found" });
  });
});
