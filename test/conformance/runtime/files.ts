/** Files of a running machine for its callers: beside the commands, as a user, many at once, until it stops. */

import { describe, expect, test } from "vitest";
import { sharedMachine } from "./exec.ts";
import { bootFor, type RuntimeHost } from "./host.ts";
import { sh, start } from "./run.ts";

export function filesSuite(host: () => RuntimeHost): void {
  describe("files of a machine", () => {
    const machine = sharedMachine(host);

    test("commands and callers see the same files", async () => {
      const files = machine().files();
      await files.write("/srv/deep/note", Buffer.from("from outside"), { parents: true });
      expect((await sh(machine(), "cat /srv/deep/note; printf inside > /srv/deep/reply")).stdout).toBe("from outside");
      expect(await text(files.read("/srv/deep/reply"))).toBe("inside");
      expect(await files.stat("/srv/deep/reply")).toMatchObject({ type: "file", size: 6, uid: 0 });
      expect((await files.list("/srv/deep")).map((file) => file.name).sort()).toEqual(["note", "reply"]);
    });

    test("an interrupted write leaves the old file, and nothing else", async () => {
      const files = machine().files("nobody");
      const broken = async function* () {
        yield Buffer.from("half");
        throw new Error("the upload broke off");
      };
      await sh(machine(), "mkdir -m 777 /srv/cut");
      await expect(files.write("/srv/cut/new", broken())).rejects.toThrow("the upload broke off");
      await files.write("/srv/cut/old", Buffer.from("before"), { mode: 0o640 });
      await expect(files.write("/srv/cut/old", broken())).rejects.toThrow("the upload broke off");
      await files.write("/srv/cut/other", Buffer.from("before"));
      await files.write("/srv/cut/other", Buffer.from("after"));
      const { stdout } = await sh(machine(), "cd /srv/cut; ls -A; cat old other; stat -c ' %u %a' old");
      expect(stdout).toBe("old\nother\nbeforeafter 65534 640\n");
    });

    test("a user has exactly that user's permissions", async () => {
      const nobody = machine().files("nobody");
      await machine().files().write("/root/secret", Buffer.from("x"), { mode: 0o600 });
      await expect(text(nobody.read("/root/secret"))).rejects.toMatchObject({ code: "forbidden" });
      await expect(nobody.write("/etc/mine", Buffer.from("x"))).rejects.toMatchObject({ code: "forbidden" });
      await nobody.write("/tmp/mine", Buffer.from("x"));
      expect((await machine().files().stat("/tmp/mine")).uid).toBe(65_534);
      await expect(machine().files("nosuchuser").stat("/")).rejects.toMatchObject({
        code: "invalid",
        about: { kind: "user" },
      });
    });

    test("an archive goes where only root may write, if wanted; what is made is the user's, the rest stays whose it is", async () => {
      await sh(
        machine(),
        "mkdir -p /srv/pack/usr/local/bin /srv/pack/opt/new/deep /srv/pack/var/own; cd /srv/pack; " +
          "printf '#!/bin/sh\necho ran\n' > usr/local/bin/tool; chmod 755 usr/local/bin/tool; " +
          "echo text > opt/new/deep/file; ln -s file opt/new/deep/link; mkfifo opt/new/deep/pipe; chmod 700 var/own",
      );
      const pack = () => machine().files().archive("/srv/pack", { gzip: true });
      const nobody = machine().files("nobody");
      const rest = "stat -c '%n %u:%g %a' /usr/local/bin /opt /var";
      const before = (await sh(machine(), rest)).stdout.trim().split("\n");
      await expect(nobody.extract("/", pack())).rejects.toMatchObject({ code: "forbidden" });
      await nobody.extract("/", pack(), { anywhere: true });
      const made =
        "/usr/local/bin/tool /opt/new /opt/new/deep /opt/new/deep/file /opt/new/deep/link /opt/new/deep/pipe";
      const stat = await sh(machine(), `stat -c '%n %u:%g %a' ${made} /var/own; ${rest}; tool`);
      expect(stat.stdout.trim().split("\n")).toEqual([
        "/usr/local/bin/tool 65534:65534 755",
        "/opt/new 65534:65534 755",
        "/opt/new/deep 65534:65534 755",
        "/opt/new/deep/file 65534:65534 644",
        "/opt/new/deep/link 65534:65534 777",
        "/opt/new/deep/pipe 65534:65534 644",
        "/var/own 65534:65534 700",
        ...before,
        "ran",
      ]);
      expect(before.slice(1)).toEqual(["/opt 0:0 755", "/var 0:0 755"]);
    });

    test("a large file is written and read as a stream", async () => {
      const files = machine().files();
      const block = Buffer.alloc(1 << 20, "block");
      await files.write(
        "/var/tmp/large",
        (async function* () {
          for (let n = 0; n < 24; n++) yield block;
        })(),
      );
      let length = 0;
      for await (const chunk of files.read("/var/tmp/large")) length += (chunk as Buffer).length;
      expect(length).toBe(24 << 20);
      expect((await sh(machine(), "wc -c < /var/tmp/large")).stdout.trim()).toBe(`${24 << 20}`);
    });

    test("four hundred requests at once are all answered", async () => {
      const files = machine().files();
      const stats = await Promise.all(Array.from({ length: 400 }, () => files.stat("/etc/passwd")));
      expect(new Set(stats.map((info) => info.size)).size).toBe(1);
    });

    test("a request that waits for ever does not block others", async () => {
      const files = machine().files();
      await sh(machine(), "head -c 30000000 /dev/zero > /tmp/unread; mkfifo /tmp/pipe");
      const stuck = Array.from({ length: 20 }, () => files.read("/tmp/unread"));
      await Promise.all(stuck.map((stream) => new Promise((resolve) => stream.once("readable", resolve))));
      await expect(text(files.read("/tmp/pipe"))).rejects.toMatchObject({ code: "invalid" });
      expect((await sh(machine(), "echo on")).stdout).toBe("on\n");
      expect((await files.stat("/tmp/pipe")).type).toBe("fifo");
      for (const stream of stuck) stream.destroy();
    });

    test("a port inside can be reached, and one without a listener cannot", async () => {
      const script = `
import socket
s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1], flush=True)
c, _ = s.accept()
while data := c.recv(65536): c.sendall(data.upper())
c.close()`;
      const server = await start(machine(), ["python3", "-u", "-c", script]);
      let port = 0;
      for await (const chunk of server.output()) {
        port = Number(Buffer.from(chunk.data).toString());
        break;
      }
      const stream = await machine().connect(port);
      stream.end("hello through the port");
      expect(await text(stream)).toBe("HELLO THROUGH THE PORT");
      expect(await server.exited).toMatchObject({ code: 0 });
      await expect(machine().connect(port)).rejects.toMatchObject({ code: "conflict" });
      for (const wrong of [0, -1, 65_536, 1.5, Number.NaN]) {
        await expect(machine().connect(wrong)).rejects.toMatchObject({ code: "invalid" });
      }
    });

    test("pending requests end when the machine stops", async () => {
      const other = await bootFor(host());
      const endless = (async function* () {
        for (;;) {
          yield Buffer.from("more");
          await new Promise((resolve) => setTimeout(resolve, 5));
        }
      })();
      const write = expect(other.files().write("/endless", endless)).rejects.toMatchObject({ code: "gone" });
      const watch = await other.files().watch("/tmp");
      const changes = (async () => {
        for await (const change of watch) return change;
        return undefined;
      })().catch(() => undefined);
      await other.stop();
      await write;
      expect(await changes).toBeUndefined();
    });
  });
}

async function text(stream: AsyncIterable<unknown>): Promise<string> {
  const parts: Buffer[] = [];
  for await (const chunk of stream) parts.push(chunk as Buffer);
  return Buffer.concat(parts).toString();
}
