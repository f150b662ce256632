/** Snapshots: of a running machine, of one that stops, booting from them, and when they may be deleted. */

import { describe, expect, test } from "vitest";
import type { Machine, SnapshotInfo } from "../../../src/core/ports/runtime.ts";
import { bootFor, dismiss, provesNothingIsLeft, type RuntimeHost } from "./host.ts";
import { gather, sh, start, until } from "./run.ts";

export function snapshotsSuite(host: () => RuntimeHost): void {
  const from = (snapshot: SnapshotInfo) => bootFor(host(), { root: { snapshot: snapshot.id } });
  const snapshots = () => host().runtime.snapshots;

  describe("a snapshot of a running machine", () => {
    provesNothingIsLeft(host);

    test("has the files written before it and not later ones, and the machine goes on", async () => {
      const machine = await bootFor(host());
      await sh(
        machine,
        "echo one > /data; mkdir -p /srv/d; ln -s /data /srv/d/link; rm /etc/hostname; chmod 640 /data",
      );
      const snapshot = await machine.snapshot();
      expect(await snapshots().get(snapshot.id)).toEqual(snapshot);
      await sh(machine, "echo two > /data; touch /later");
      const copy = await from(snapshot);
      const { stdout } = await sh(copy, "cat /srv/d/link; stat -c %a /data; ls /later /etc/hostname 2>&1 | wc -l");
      expect(stdout).toBe("one\n640\n2\n");
      expect((await sh(machine, "cat /data")).stdout).toBe("two\n");
    });

    test("is consistent while a writer runs, and the writer loses no write", async () => {
      const machine = await bootFor(host());
      // two files that always have the same content, except for the moment between the two renames
      const script = `
import os, sys
n = 0
while not os.path.exists("/stop"):
    n += 1
    for name in ("a", "b"):
        with open("/srv/%s.new" % name, "w") as f: f.write("%d" % n * 500)
    os.rename("/srv/a.new", "/srv/a"); os.rename("/srv/b.new", "/srv/b")
    with open("/srv/log", "a") as f: f.write("%d\\n" % n)
    if n == 20: print("up", flush=True)
print(n)`;
      const writer = await start(machine, ["python3", "-c", script]);
      await until(writer.output(), "up");
      const taken = [await machine.snapshot(), await machine.snapshot(), await machine.snapshot()];
      await sh(machine, "touch /stop");
      expect(await writer.exited).toMatchObject({ code: 0 });
      const total = Number((await gather(writer.output())).stdout.trim().split("\n").at(-1));
      const numbers = (text: string) => text.trim().split("\n").map(Number);
      const upTo = (n: number) => Array.from({ length: n }, (_, at) => at + 1);
      expect(numbers((await sh(machine, "cat /srv/log")).stdout)).toEqual(upTo(total));
      for (const snapshot of taken) {
        const copy = await from(snapshot);
        const log = numbers((await sh(copy, "cat /srv/log")).stdout);
        expect(log).toEqual(upTo(log.length));
        const check =
          "import re; a, b = open('/srv/a').read(), open('/srv/b').read(); print(len(a), len(b), a[:5], b[:5])";
        const [a, b] = (await sh(copy, `python3 -c "${check}"`)).stdout.split(" ").map(Number);
        expect(Math.min(a ?? 0, b ?? 0)).toBeGreaterThanOrEqual(1000);
      }
    });

    test("does not interrupt running commands or their output", async () => {
      const machine = await bootFor(host());
      const script =
        "i=0; while [ $i -lt 200 ]; do echo $i; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.01; done; exit 0";
      const command = await start(machine, ["sh", "-c", script]);
      for (let n = 0; n < 3; n++) await machine.snapshot();
      expect((await gather(command.output())).stdout.trim().split("\n")).toHaveLength(200);
    });

    test("several at once are all complete", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo content > /data");
      const taken = await Promise.all([machine.snapshot(), machine.snapshot(), machine.snapshot()]);
      expect(new Set(taken.map((snapshot) => snapshot.id)).size).toBe(3);
      const copies = await Promise.all(taken.map(from));
      for (const copy of copies) expect((await sh(copy, "cat /data")).stdout).toBe("content\n");
    });
  });

  describe("a stop with a snapshot", () => {
    provesNothingIsLeft(host);

    test("keeps the file system, from which another machine boots", async () => {
      const machine = await bootFor(host());
      await sh(
        machine,
        "echo kept > /root/file; mkdir /d; touch /d/x; chown 1000:1000 /d/x; mkfifo /d/p; ln /root/file /d/hard",
      );
      const { snapshot } = await machine.stop({ snapshot: true });
      if (!snapshot) throw new Error("The stop took no snapshot");
      const copy = await from(snapshot);
      const { stdout } = await sh(copy, "cat /root/file /d/hard; stat -c '%u:%g' /d/x; test -p /d/p && echo pipe");
      expect(stdout).toBe("kept\nkept\n1000:1000\npipe\n");
      // the spec is on record also after the runtime was opened again
      await host().reopen();
      expect(await snapshots().get(snapshot.id)).toEqual({ ...snapshot, size: expect.any(Number) });
      expect(await host().runtime.salvage(machine.id)).toEqual(snapshot);
    });

    test("has a size estimate before it is on the disk, and the exact size afterwards", async () => {
      const written = 24_000_000;
      const small = 2_000_000;
      const [machine, other] = await Promise.all([bootFor(host()), bootFor(host())]);
      const write = (to: Machine) => sh(to, `head -c ${written} /dev/urandom > /root/file; sync /root/file`);
      await Promise.all([write(machine), write(other)]);
      const copied = await other.snapshot();
      expect(copied.size).toBeGreaterThanOrEqual(written);
      expect(copied.size).toBeLessThan(written + small);
      // data that was on the disk by then, as after a capture of any machine, is freed only with the next flush
      await sh(machine, `rm /root/file; head -c ${written / 2} /dev/urandom > /root/other`);
      const { snapshot } = await machine.stop({ snapshot: true });
      if (!snapshot) throw new Error("The stop took no snapshot");
      expect(snapshot.size).toBeGreaterThanOrEqual(written / 2);
      const settled = await snapshots().settled(snapshot.id);
      expect(settled).toEqual({ ...snapshot, size: expect.any(Number) });
      expect(settled?.size).toBeGreaterThanOrEqual(written / 2);
      expect(settled?.size).toBeLessThan(written / 2 + small);
      expect(await snapshots().get(snapshot.id)).toEqual(settled);
      expect((await from(snapshot).then((copy) => sh(copy, "wc -c < /root/other"))).stdout.trim()).toBe(
        `${written / 2}`,
      );
    });

    test("without one, the files are gone", async () => {
      const machine = await bootFor(host());
      await machine.stop();
      expect(await host().runtime.salvage(machine.id)).toBeUndefined();
    });

    test("forgetting the machine does not delete its snapshot", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo mine > /file");
      const { snapshot } = await machine.stop({ snapshot: true });
      if (!snapshot) throw new Error("The stop took no snapshot");
      await host().runtime.forget(machine.id);
      await snapshots().collect();
      expect((await sh(await from(snapshot), "cat /file")).stdout).toBe("mine\n");
    });
  });

  describe("machines from one snapshot", () => {
    provesNothingIsLeft(host);

    test("are independent of each other and of the snapshot", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo base > /shared; echo gone > /removed");
      const snapshot = await machine.snapshot();
      const [one, other] = await Promise.all([from(snapshot), from(snapshot)]);
      await Promise.all([
        sh(one, "echo one >> /shared; rm /removed; touch /only-one"),
        sh(other, "echo other >> /shared; mv /removed /renamed"),
      ]);
      expect((await sh(one, "cat /shared; ls /removed /renamed /only-one 2>/dev/null")).stdout).toBe(
        "base\none\n/only-one\n",
      );
      expect((await sh(other, "cat /shared; ls /removed /renamed /only-one 2>/dev/null")).stdout).toBe(
        "base\nother\n/renamed\n",
      );
      expect((await sh(await from(snapshot), "cat /shared /removed")).stdout).toBe("base\ngone\n");
    });

    test("the thirtieth in a row has the files of all before it, and no more layers than the first", async () => {
      let machine: Machine = await host().boot();
      let snapshot: SnapshotInfo | undefined;
      for (let n = 1; n <= 30; n++) {
        await sh(machine, `echo ${n} > /file-${n}; echo ${n} >> /all; rm -f /file-$((${n} - 5)); mkdir -p /dir/${n}`);
        if (n % 7 === 0) await sh(machine, `rm -rf /dir; mkdir /dir; touch /dir/fresh-${n}`);
        snapshot = (await machine.stop({ snapshot: true })).snapshot;
        await dismiss(host(), machine.id);
        if (!snapshot) throw new Error("The stop took no snapshot");
        machine = await host().boot({ root: { snapshot: snapshot.id } });
      }
      const last = snapshot?.id ?? "";
      await dismiss(host(), machine.id);
      expect((await snapshots().get(last))?.layers).toHaveLength(1);
      const again = await bootFor(host(), { root: { snapshot: last } });
      const { stdout } = await sh(again, "wc -l < /all; ls -d /file-* | sort; ls /dir | sort");
      const files = [26, 27, 28, 29, 30].map((n) => `/file-${n}`);
      expect(stdout.trim().split("\n")).toEqual(["30", ...files, "29", "30", "fresh-28"]);
    });
  });

  describe("collecting", () => {
    provesNothingIsLeft(host);

    test("deletes unused layers, and takes nothing from machines that began with them", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo needed > /file");
      const snapshot = await machine.snapshot();
      const copy = await from(snapshot);
      await snapshots().delete(snapshot.id);
      expect(await snapshots().get(snapshot.id)).toBeUndefined();
      expect(await snapshots().collect()).toContain(snapshot.layers[0]);
      expect((await sh(copy, "cat /file")).stdout).toBe("needed\n");
      const { snapshot: next } = await copy.stop({ snapshot: true });
      await host().runtime.forget(copy.id);
      expect(await snapshots().collect()).not.toContain(next?.layers[0]);
      if (!next) throw new Error("The stop took no snapshot");
      expect((await sh(await from(next), "cat /file")).stdout).toBe("needed\n");
    });

    test("a layer is deleted after its last snapshot, and nothing boots from it any more", async () => {
      const machine = await bootFor(host());
      const snapshot = await machine.snapshot();
      await snapshots().delete(snapshot.id);
      expect(await snapshots().collect()).toContain(snapshot.layers[0]);
      await expect(host().boot({ root: { snapshot: snapshot.id } })).rejects.toMatchObject({ code: "not-found" });
    });

    test("a failed boot leaves no claim on its layers", async () => {
      const machine = await bootFor(host());
      const snapshot = await machine.snapshot();
      const root = { snapshot: snapshot.id };
      await expect(host().boot({ id: "a b", root })).rejects.toMatchObject({ code: "invalid" });
      await expect(host().boot({ limits: { pids: 0 }, root })).rejects.toMatchObject({ code: "invalid" });
      await snapshots().delete(snapshot.id);
      expect(await snapshots().collect()).toContain(snapshot.layers[0]);
    });

    test("does not disturb parallel boots, forks and snapshots", async () => {
      const machine = await bootFor(host());
      await sh(machine, "echo base > /file");
      const work = Array.from({ length: 8 }, async () => {
        const snapshot = await machine.snapshot();
        const copy = await from(snapshot);
        await snapshots().delete(snapshot.id);
        return (await sh(copy, "cat /file")).stdout;
      });
      const collecting = (async () => {
        for (let n = 0; n < 20; n++) await snapshots().collect();
      })();
      expect(await Promise.all(work)).toEqual(work.map(() => "base\n"));
      await collecting;
    });
  });
}
