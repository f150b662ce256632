/**
 * The Linux runtime on a file system without volumes or limits of its own, here one in memory: it passes the same
 * suites, except for the disk limit, which is watched instead of enforced.
 */

import { describe, expect, test } from "vitest";
import { bootSuite } from "../conformance/runtime/boot.ts";
import { bootFor } from "../conformance/runtime/host.ts";
import { sh } from "../conformance/runtime/run.ts";
import { snapshotsSuite } from "../conformance/runtime/snapshots.ts";
import { eventually } from "../harness/harness.ts";
import { linuxHost } from "../harness/linux-host.ts";

// the parent of the data directory
process.env.TMPDIR = "/dev/shm";

const host = linuxHost({ storage: { kind: "directory" } });

bootSuite(host);
snapshotsSuite(host);

describe("a disk limit that is watched", () => {
  const limits = { disk: 16 << 20 };

  test("refuses writes of running programs, without killing any, until enough is deleted", async () => {
    const machine = await bootFor(host(), { limits });
    const fill = "n=0; while head -c 1000000 /dev/zero > /var/tmp/$n; do n=$((n + 1)); sleep 0.02; done";
    const filled = await sh(machine, `${fill}; echo x > /y || echo refused; ls /etc/passwd; rm /var/tmp/*`);
    expect(filled).toMatchObject({ status: { code: 0 }, stdout: "refused\n/etc/passwd\n" });
    expect(filled.stderr).toMatch(/file too large/i);
    await eventually("a program may write again", async () => {
      // longer than a round of the watch: if it still stops the program, the write fails
      const { stdout } = await sh(machine, "sleep 1; echo again > /var/tmp/a; cat /var/tmp/a");
      return stdout === "again\n";
    });
  });

  test("refuses writes from outside too, with a typed error", async () => {
    const machine = await bootFor(host(), { limits });
    const endless = (async function* () {
      for (;;) {
        yield Buffer.alloc(1 << 20);
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    })();
    await expect(machine.files().write("/var/tmp/f", endless)).rejects.toMatchObject({ code: "limit" });
  });
});
