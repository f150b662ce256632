/** The input of commands: standard input with its limits and its end, and terminals. */

import { createHash, randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { eventually } from "../../harness/harness.ts";
import { sharedMachine } from "./exec.ts";
import type { RuntimeHost } from "./host.ts";
import { gather, sh, start, until } from "./run.ts";

export function inputSuite(host: () => RuntimeHost): void {
  describe("standard input", () => {
    const machine = sharedMachine(host);

    test("arrives complete and in order, whatever its length", async () => {
      const data = randomBytes(12 << 20);
      const command = await start(machine(), ["sha256sum"], { stdin: true });
      for (let at = 0; at < data.length; at += 3_000_001) await command.write(data.subarray(at, at + 3_000_001));
      await command.closeStdin();
      const digest = createHash("sha256").update(data).digest("hex");
      expect((await gather(command.output())).stdout).toBe(`${digest}  -\n`);
      expect(await command.exited).toMatchObject({ code: 0 });
    });

    test("waits for a command that does not read, which may still read it later", async () => {
      const command = await start(machine(), ["sh", "-c", "while [ ! -e /go ]; do sleep 0.02; done; wc -c"], {
        stdin: true,
      });
      let taken = false;
      const write = command.write(new Uint8Array(1 << 20)).then(() => {
        taken = true;
      });
      await sh(machine(), "sleep 0.1");
      expect(taken).toBe(false);
      await sh(machine(), "touch /go");
      await write;
      await command.closeStdin();
      expect((await gather(command.output())).stdout.trim()).toBe(`${1 << 20}`);
      await sh(machine(), "rm /go");
    });

    test("is refused once too much of it waits for the command", async () => {
      const command = await start(machine(), ["sleep", "1000"], { stdin: true });
      const writes = Array.from({ length: 40 }, () => command.write(new Uint8Array(1 << 20)));
      const results = Promise.allSettled(writes);
      await expect(Promise.race(writes)).rejects.toMatchObject({ code: "limit" });
      await command.signal(9);
      expect((await results).every((result) => result.status === "rejected")).toBe(true);
    });

    test("cannot be written to a command that has closed it, that has ended, or that never had one", async () => {
      const gone = { code: "gone" };
      const closed = await start(machine(), ["sh", "-c", "exec 0<&-; echo closed; exec sleep 1000"], { stdin: true });
      await until(closed.output(), "closed");
      await eventually("a refusal", async () => {
        await expect(closed.write(Buffer.from("x"))).rejects.toMatchObject(gone);
        return true;
      });
      await closed.signal(9);
      await closed.exited;
      await expect(closed.write(Buffer.from("x"))).rejects.toMatchObject(gone);
      const never = await start(machine(), ["sleep", "1000"]);
      await expect(never.write(Buffer.from("x"))).rejects.toMatchObject(gone);
      await never.signal(9);
    });

    test("that still waits is refused when its command ends", async () => {
      const command = await start(machine(), ["sh", "-c", "sleep 0.1"], { stdin: true });
      await expect(command.write(new Uint8Array(3 << 20))).rejects.toMatchObject({ code: "gone" });
    });

    test("takes nothing after it was closed", async () => {
      const command = await start(machine(), ["cat"], { stdin: true });
      await command.write(Buffer.from("a"));
      await command.closeStdin();
      await expect(command.write(Buffer.from("b"))).rejects.toMatchObject({ code: "gone" });
      expect((await gather(command.output())).stdout).toBe("a");
    });

    test("written at an offset arrives once, however often it is sent, and a gap is refused", async () => {
      const command = await start(machine(), ["cat"], { stdin: true });
      const patience = new AbortController().signal;
      expect(await command.given()).toBe(0);
      expect(await command.feed(Buffer.from("abc"), 0, patience)).toBe(3);
      expect(await command.feed(Buffer.from("abc"), 0, patience)).toBe(3);
      expect(await command.feed(Buffer.from("bcd"), 1, patience)).toBe(4);
      await expect(command.feed(Buffer.from("x"), 9, patience)).rejects.toMatchObject({ code: "invalid" });
      expect(await command.feed(new Uint8Array(0), 4, patience)).toBe(4);
      await command.closeStdin();
      expect((await gather(command.output())).stdout).toBe("abcd");
    });

    test("that a command does not read in time reports how much was taken, and may be sent again", async () => {
      const command = await start(machine(), ["sh", "-c", "while [ ! -e /go ]; do sleep 0.02; done; sha256sum"], {
        stdin: true,
      });
      const data = randomBytes(1 << 20);
      const patience = new AbortController();
      const fed = command.feed(data, 0, patience.signal);
      await eventually("it takes what a pipe holds", async () => (await command.given()) > 0);
      patience.abort();
      const taken = await fed;
      expect(taken).toBeGreaterThan(0);
      expect(taken).toBeLessThan(data.length);
      await sh(machine(), "touch /go");
      expect(await command.feed(data, 0, new AbortController().signal)).toBe(data.length);
      await command.closeStdin();
      const digest = createHash("sha256").update(data).digest("hex");
      expect((await gather(command.output())).stdout).toBe(`${digest}  -\n`);
      await sh(machine(), "rm /go");
    });

    test("may be empty", async () => {
      const command = await start(machine(), ["cat"], { stdin: true });
      await command.write(new Uint8Array(0));
      await command.write(Buffer.from("x"));
      await command.write(new Uint8Array(0));
      await command.closeStdin();
      expect((await gather(command.output())).stdout).toBe("x");
    });
  });

  describe("a terminal", () => {
    const machine = sharedMachine(host);
    const size = { rows: 33, columns: 101 };

    test("is a terminal for all three streams, of the requested size", async () => {
      const script =
        "import os,sys; print(all(map(os.isatty, (0, 1, 2))), os.get_terminal_size()); sys.stderr.write('err\\n')";
      const command = await start(machine(), ["python3", "-c", script], { pty: size });
      const { pty, stdout, stderr } = await gather(command.output());
      expect(pty).toContain("True os.terminal_size(columns=101, lines=33)");
      expect(pty).toContain("err");
      expect([stdout, stderr]).toEqual(["", ""]);
    });

    test("is the controlling terminal of its own session, named in TERM", async () => {
      const command = await start(machine(), ["sh", "-c", "tty; echo $TERM; echo yes > /dev/tty"], { pty: size });
      expect((await gather(command.output())).pty).toMatch(/^\/dev\/pts\/\d+\r\nxterm-256color\r\nyes\r\n$/);
    });

    test("belongs to the user of the command", async () => {
      const command = await start(machine(), ["sh", "-c", "test -w $(tty) && echo mine"], {
        pty: size,
        user: "nobody",
        cwd: "/",
      });
      expect((await gather(command.output())).pty).toContain("mine");
    });

    test("signals a resize to the foreground program", async () => {
      const script = "trap 'stty size; exit 0' WINCH; echo up; while :; do sleep 0.02; done";
      const command = await start(machine(), ["sh", "-c", script], { pty: size });
      await until(command.output(), "up");
      await command.resize({ rows: 50, columns: 120 });
      expect(await command.exited).toMatchObject({ code: 0 });
      expect((await gather(command.output())).pty).toContain("50 120");
    });

    test.each([
      { rows: -1, columns: 1 },
      { rows: 1, columns: 70_000 },
      { rows: Number.NaN, columns: 1 },
    ])("cannot have $rows rows and $columns columns", async (wrong) => {
      const command = await start(machine(), ["sleep", "1000"], { pty: size });
      await expect(command.resize(wrong)).rejects.toMatchObject({ code: "invalid" });
      await command.signal(9);
    });

    test("a command without one cannot be resized", async () => {
      const command = await start(machine(), ["sleep", "1000"]);
      await expect(command.resize(size)).rejects.toMatchObject({ code: "conflict" });
      await command.signal(9);
    });

    test("runs an interactive shell: Control-C interrupts, `exit` ends it", async () => {
      const command = await start(machine(), ["sh", "-i"], { pty: size, env: { PS1: "ready> " } });
      await until(command.output(), "ready> ");
      await command.write(Buffer.from("sleep 1000; echo code-$?\n"));
      await eventually("the sleep runs", async () =>
        (await sh(machine(), "cat /proc/[0-9]*/comm")).stdout.includes("sleep"),
      );
      await command.write(Buffer.from("\u0003"));
      await command.write(Buffer.from("echo after-$((40 + 2))\n"));
      await until(command.output(), "after-42");
      await command.write(Buffer.from("exit 7\n"));
      expect(await command.exited).toMatchObject({ code: 7 });
    });

    test("Control-C ends a program that does not handle it", async () => {
      const command = await start(machine(), ["sleep", "1000"], { pty: size });
      await command.write(Buffer.from("\u0003"));
      expect(await command.exited).toMatchObject({ code: 130, signal: 2 });
    });

    test("closing its input types Control-D", async () => {
      const command = await start(machine(), ["cat"], { pty: size });
      await command.write(Buffer.from("line\n"));
      await until(command.output(), "line\r\nline\r\n");
      await command.closeStdin();
      expect(await command.exited).toMatchObject({ code: 0 });
    });

    test("loses neither output right before the end nor the exit code of a program that closes it first", async () => {
      const runs = Array.from({ length: 60 }, async (_, n) => {
        const argv =
          n % 2 ? ["cat", "/etc/passwd"] : ["python3", "-c", "import os; print('x' * 5000); os.closerange(0, 3)"];
        const command = await start(machine(), argv, { pty: size });
        return { pty: (await gather(command.output())).pty, code: (await command.exited).code };
      });
      const results = await Promise.all(runs);
      expect(results.map(({ code }) => code)).toEqual(results.map(() => 0));
      expect(new Set(results.map(({ pty }) => pty)).size).toBe(2);
    });

    test("takes a large paste while the program prints as much", async () => {
      const command = await start(machine(), ["sh", "-c", "stty raw -echo; echo up; head -c 2000000 | wc -c"], {
        pty: size,
      });
      await until(command.output(), "up");
      await command.write(Buffer.alloc(2_000_000, "p"));
      expect((await gather(command.output())).pty).toContain("2000000");
    });
  });
}
