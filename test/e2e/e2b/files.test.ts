/** Files through E2B's own SDKs, the current one and the last of version 1, unmodified. */

import { randomBytes } from "node:crypto";
import { buffer, text } from "node:stream/consumers";
import type { FilesystemEvent } from "e2b";
import { describe, expect, test } from "vitest";
import { daemonOfFile } from "../../harness/daemon.ts";
import { sandboxOf, sdks, useDaemon } from "./e2b.ts";

const daemon = daemonOfFile();
useDaemon(daemon);

describe.each(sdks)("with SDK $version", ({ Sandbox: Sdk, version }) => {
  const sandbox = sandboxOf(() => Sdk.create({ timeoutMs: 300_000, ...(version.startsWith("1") && { secure: true }) }));
  const files = () => sandbox().files;
  const sh = async (script: string) => (await sandbox().commands.run(script)).stdout;

  test("a file is written and read in every format, byte by byte", async () => {
    const bytes = randomBytes(300_000);
    const arrayBuffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length) as ArrayBuffer;
    const written = await files().write("data/x.bin", arrayBuffer);
    expect(written).toMatchObject({ path: "/home/user/data/x.bin", name: "x.bin", type: "file" });
    expect(Buffer.from(await files().read("data/x.bin", { format: "bytes" })).equals(bytes)).toBe(true);
    const blob = await files().read("/home/user/data/x.bin", { format: "blob" });
    expect(Buffer.from(await blob.arrayBuffer()).equals(bytes)).toBe(true);
    const stream = await files().read("~/data/x.bin", { format: "stream" });
    expect((await buffer(stream)).equals(bytes)).toBe(true);
    await files().write("t.txt", new Blob(["héllo €"]));
    expect(await files().read("t.txt")).toBe("héllo €");
    await files().write("t.txt", "");
    expect(await files().read("t.txt")).toBe("");
    expect(await files().read("/proc/meminfo")).toContain("MemTotal:");
  });

  test("many files are written at once, also where only root may write, and belong to the user", async () => {
    const written = await files().write([
      { path: "/srv/app/etc/one", data: "1" },
      { path: 'odd "name" %22 é.txt', data: "2" },
      { path: "../../opt/three", data: "3" },
    ]);
    const paths = ["/srv/app/etc/one", '/home/user/odd "name" %22 é.txt', "/opt/three"];
    // In a client's name, %22 may be a quote or these three characters.
    if (!written[1]?.path.includes("%22")) paths[1] = '/home/user/odd "name" " é.txt';
    expect(written.map(({ path }) => path)).toEqual(paths);
    const facts = "stat -c '%U %a' /srv/app /srv/app/etc /srv/app/etc/one /opt/three /srv /opt";
    expect((await sh(facts)).trim().split("\n")).toEqual([
      ...["user 755", "user 755", "user 644", "user 644", "root 755", "root 755"],
    ]);
    await files().write("/root/secret", "r", { user: "root" });
    expect(await sh("sudo stat -c '%U' /root/secret")).toBe("root\n");
    await expect(files().write("x", "1", { user: "stranger" })).rejects.toThrow("stranger");
    await expect(
      files().write([
        { path: "same", data: "1" },
        { path: "/home/user/same", data: "2" },
      ]),
    ).rejects.toThrow("twice");
    expect(await files().write([])).toEqual([]);
  });

  test("a directory is listed to a depth, with metadata", async () => {
    await sh(
      "rm -rf l; mkdir -p l/a/b/c; echo 12345 > l/f; ln -s f l/link; ln -s nowhere l/dangling; chmod 640 l/f; ln -s a l/dirlink",
    );
    const list = async (depth?: number) =>
      (await files().list("l", depth === undefined ? {} : { depth }))
        .map(({ path }) => path.slice("/home/user/l/".length))
        .sort();
    expect(await list()).toEqual(["a", "dirlink", "f", "link"]);
    expect(await list(2)).toEqual(["a", "a/b", "dirlink", "f", "link"]);
    expect(await list(9)).toEqual(["a", "a/b", "a/b/c", "dirlink", "f", "link"]);
    const [f] = (await files().list("l")).filter(({ name }) => name === "f");
    expect(f).toMatchObject({
      type: "file",
      size: 6,
      mode: 0o640,
      permissions: "-rw-r-----",
      owner: "user",
      group: "user",
    });
    expect(Math.abs((f?.modifiedTime?.getTime() ?? 0) - Date.now())).toBeLessThan(600_000);
    expect(await files().getInfo("l/dirlink")).toMatchObject({ type: "dir", symlinkTarget: "/home/user/l/a" });
    expect(await files().getInfo("/")).toMatchObject({ type: "dir", owner: "root" });
    await expect(files().list("l/none")).rejects.toThrow("no such file");
    await expect(files().list("l/f")).rejects.toThrow("not a directory");
    await expect(files().getInfo("l/none")).rejects.toThrow("no such file");
  });

  test("a list that is too long is refused, and not as a rate limit, which clients wait for", async () => {
    const refusal: unknown = await files()
      .list("/usr", { depth: 9 })
      .catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      name: "SandboxError",
      message: expect.stringContaining("it holds more than 10000 files"),
    });
  });

  test("directories are made, and files are found, moved and removed", async () => {
    expect(await files().makeDir("m/one/two")).toBe(true);
    expect(await files().makeDir("m/one/two")).toBe(false);
    expect(await files().makeDir("/var/made/by")).toBe(true);
    expect(await sh("stat -c %U /var/made /var/made/by")).toBe("user\nuser\n");
    await files().write("m/file", "x");
    await expect(files().makeDir("m/file")).rejects.toThrow("it is a file");
    expect(await files().exists("m/file")).toBe(true);
    const moved = await files().rename("m/file", "m/new/place");
    expect(moved).toMatchObject({ name: "place", path: "/home/user/m/new/place", type: "file" });
    expect(await files().exists("m/file")).toBe(false);
    await expect(files().rename("m/file", "m/never/there")).rejects.toThrow("no such file");
    expect(await files().exists("m/never")).toBe(false);
    await files().remove("m");
    await files().remove("m");
    expect(await files().exists("m")).toBe(false);
    await expect(files().read("m/file")).rejects.toThrow("no such file");
    await expect(files().read("/etc")).rejects.toThrow("it is a directory");
  });

  test("a directory is watched, including everything below it", async () => {
    await files().makeDir("w/sub");
    await files().write("w/old", "1");
    const [shallow, deep]: [string[], string[]] = [[], []];
    const into = (seen: string[]) => (event: FilesystemEvent) => void seen.push(`${event.type} ${event.name}`);
    let ended = 0;
    const onExit = () => void ended++;
    const handles = [
      await files().watchDir("w", into(shallow), { onExit }),
      await files().watchDir("w", into(deep), { recursive: true, timeoutMs: 0, onExit }),
    ];
    await files().write("w/old", "22");
    await files().write("w/sub/new", "x");
    await sh("cd w; mv old renamed; chmod 600 renamed; rm renamed");
    await expect.poll(() => [shallow.at(-1), deep.at(-1)]).toEqual(["remove renamed", "remove renamed"]);
    const expected = ["write old", "rename old", "create renamed", "chmod renamed", "remove renamed"];
    expect(shallow).toEqual(expect.arrayContaining(expected));
    expect(shallow.filter((event) => /sub\/|#|\.new$/.test(event))).toEqual([]);
    expect(deep).toEqual(expect.arrayContaining([...expected, "create sub/new", "write sub/new"]));
    for (const handle of handles) await handle.stop();
    await expect.poll(() => ended).toBe(2);
    await expect(files().watchDir("w/none", () => undefined)).rejects.toThrow("no such file");
    await expect(files().watchDir("/etc/hosts", () => undefined)).rejects.toThrow("it is a file");
  });

  test("a signed address reads and writes one file, until it expires", async () => {
    await files().write("signed.txt", "s1");
    const get = async (address: string) => {
      const answer = await fetch(address);
      return [answer.status, await answer.text()];
    };
    const url = await sandbox().downloadUrl("signed.txt");
    expect(await get(url)).toEqual([200, "s1"]);
    expect(await get(await sandbox().downloadUrl("signed.txt", { useSignatureExpiration: 60, user: "root" }))).toEqual([
      404,
      expect.any(String),
    ]);
    const wrong = url.replace("signed.txt", "other.txt");
    expect((await get(wrong))[0]).toBe(401);
    const expired = await sandbox().downloadUrl("signed.txt", { useSignatureExpiration: -5 });
    expect(await get(expired)).toEqual([401, expect.stringContaining("signature is already expired")]);
    const form = new FormData();
    form.append("file", new Blob(["s2"]), "ignored");
    const upload = await fetch(await sandbox().uploadUrl("signed.txt"), { method: "POST", body: form });
    expect([upload.status, await upload.json()]).toEqual([
      200,
      [expect.objectContaining({ path: "/home/user/signed.txt" })],
    ]);
    expect(await files().read("signed.txt")).toBe("s2");
    // An address for reading does not write.
    expect((await fetch(url, { method: "POST", body: form })).status).toBe(401);
    const free = new FormData();
    free.append("file", new Blob(["s3"]), "chosen.txt");
    expect((await fetch(await sandbox().uploadUrl(), { method: "POST", body: free })).status).toBe(200);
    expect(await files().read("chosen.txt")).toBe("s3");
  });
});

describe("what only the current SDK does", () => {
  const sandbox = sandboxOf(() => sdks[0]?.Sandbox.create() ?? Promise.reject());

  test("streams and compressed uploads and downloads are the same bytes", async () => {
    const { files } = sandbox();
    const long = "0123456789".repeat(50_000);
    await files.write("gz.txt", long, { gzip: true });
    expect(await files.read("gz.txt", { gzip: true })).toBe(long);
    await files.write("octet.txt", "plain", { useOctetStream: true });
    expect(await files.read("octet.txt")).toBe("plain");
    const stream = new Blob([long]).stream();
    await files.write("stream.txt", stream);
    expect(await text(await files.read("stream.txt", { format: "stream" }))).toBe(long);
    const many = await files.writeFiles(
      [
        { path: "1", data: "a" },
        { path: "2", data: "b" },
      ],
      { useOctetStream: true },
    );
    expect(many.map(({ name }) => name)).toEqual(["1", "2"]);
  });

  test("metadata stay with a file, and each upload replaces all of them", async () => {
    const { files, commands } = sandbox();
    const [written] = [await files.write("noted.txt", "1", { metadata: { Owner: "me", kind: "a=b" } })];
    expect(written.metadata).toEqual({ owner: "me", kind: "a=b" });
    expect((await files.getInfo("noted.txt")).metadata).toEqual({ owner: "me", kind: "a=b" });
    await commands.run("setfattr -n user.other -v x noted.txt 2>/dev/null || true; mkdir -p noted; touch noted/plain");
    await files.write("noted/deep.txt", "1", { metadata: { deep: "yes" } });
    const listed = (await files.list(".", { depth: 2 })).filter(({ path }) => path.includes("noted"));
    expect(Object.fromEntries(listed.map(({ name, metadata = {} }) => [name, metadata]))).toEqual({
      ...{ noted: {}, plain: {}, "deep.txt": { deep: "yes" }, "noted.txt": { owner: "me", kind: "a=b" } },
    });
    await files.rename("noted.txt", "moved.txt");
    expect((await files.getInfo("moved.txt")).metadata).toEqual({ owner: "me", kind: "a=b" });
    await files.write("moved.txt", "2", { metadata: { other: "x" }, useOctetStream: true });
    expect((await files.getInfo("moved.txt")).metadata).toEqual({ other: "x" });
    await files.write("moved.txt", "3");
    expect((await files.getInfo("moved.txt")).metadata ?? {}).toEqual({});
    expect((await commands.run("cat moved.txt; stat -c ' %U' moved.txt")).stdout).toBe("3 user\n");
  });

  test("a watch that sees nothing keeps its stream alive", async () => {
    const { sandboxId } = sandbox();
    const ending = new AbortController();
    const message = Buffer.from('{"path":"/home/user"}');
    const answer = await fetch(new URL("/filesystem.Filesystem/WatchDir", daemon().url), {
      method: "POST",
      signal: ending.signal,
      headers: {
        "e2b-sandbox-id": sandboxId,
        // The SDK keeps it for itself.
        "x-access-token": (sandbox() as unknown as { envdAccessToken: string }).envdAccessToken,
        "content-type": "application/connect+json",
        "keepalive-ping-interval": "1",
      },
      // An envelope: flags, length, message.
      body: Buffer.concat([Buffer.from([0, 0, 0, 0, message.length]), message]),
    });
    let seen = "";
    for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      seen += piece;
      if (seen.split('{"keepalive":{}}').length > 2) break;
    }
    expect(seen.startsWith('\0\0\0\0\f{"start":{}}')).toBe(true);
    ending.abort();
  });

  test("a watch reports the metadata of changed files that still exist", async () => {
    const { files } = sandbox();
    await files.makeDir("facts");
    const seen: FilesystemEvent[] = [];
    await files.watchDir("facts", (event) => void seen.push(event), { includeEntry: true, timeoutMs: 0 });
    await files.write("facts/a", "12345");
    await expect
      .poll(() => seen.find(({ type }) => type === "write")?.entry)
      .toMatchObject({
        name: "a",
        path: "/home/user/facts/a",
        size: 5,
        owner: "user",
      });
  });
});
