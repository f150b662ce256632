/** The messages between netd and the egress process: every message that guest/netd writes is read, with every field. */

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type EgressReply, netdChannelVersion, readNetdMessage, writeEgressReply } from "./netd-channel.ts";

const packet = Buffer.from([10, 255]);
const sender = { id: 1, machine: "text", custom: true };
const destination = { address: "text", port: 1 };
/** every message with every field, as netd writes it with these values */
const messages = {
  tcp: { ...sender, ...destination, holder: 1 },
  udp: { ...sender, flow: 1, ...destination, holder: 1 },
  dns: { ...sender, flow: 1, packet: "0aff", holder: 1 },
  flow: { ...sender, ...destination, sent: 1, received: 1 },
  holder: { id: 1, program: "6375726c", ancestry: [[1, 1, 1]] },
  end: { id: 1 },
  rechecked: { id: 1 },
  refused: { id: 1, machine: "text", protocol: 1, ...destination, packet: "0aff" },
  unseen: { id: 1, machine: "text", count: 1 },
  told: { id: 1 },
};

describe("messages of netd", () => {
  test("are read as guest/netd writes them", () => {
    const written = formatsInGuest().map((format) => filledIn(format));
    expect(new Set(written.map(({ kind }) => kind))).toEqual(new Set(Object.keys(messages)));
    for (const message of written) expect(readNetdMessage(message)).toEqual(expected(message.kind));
  });

  test("are read without fields that an older netd does not send, and with fields of a newer one", () => {
    for (const kind of ["tcp", "udp", "dns"] as const) {
      const { holder: _holder, custom: _custom, ...older } = messages[kind];
      expect(readNetdMessage({ kind, ...older, later: 1 })).toEqual({ ...expected(kind), holder: 0, custom: false });
    }
  });

  test("of a newer version are refused with a clear error", () => {
    expect(() => readNetdMessage({ v: netdChannelVersion + 1, kind: "end", id: 1 })).toThrow(
      /^Cannot read a message of netd: its format is version 2, and this version of Sandkeep knows only 1$/,
    );
  });

  test.each([
    [null, "Cannot understand a message: not an object"],
    [{ kind: "end" }, 'Cannot understand a message: "id" is not a number'],
    [{ kind: "tcp", id: 1 }, 'Cannot understand a message: "machine" is not text'],
    [{ kind: "holder", id: 1, program: "", ancestry: 1 }, 'Cannot understand a message: "ancestry" is not a list'],
    [{ kind: "x", id: 1, machine: "a", address: "1.1.1.1", port: 1 }, 'Cannot understand a message of kind "x"'],
  ])("%j is refused", (message, sentence) => {
    expect(() => readNetdMessage(message)).toThrow(sentence);
  });
});

test("replies are the lines that guest/netd parses", () => {
  const lines: [EgressReply, string][] = [
    [{ kind: "allow", flow: 2 }, "allow 2"],
    [{ kind: "deny", flow: 2 }, "deny 2"],
    [{ kind: "unanswered", flow: 2 }, "unanswered 2"],
    [{ kind: "answer", flow: 2, packet }, "answer 2 0aff"],
    [{ kind: "recheck", machine: "a", token: 3 }, "recheck a 3"],
    [{ kind: "tell", machine: "*", token: 3 }, "tell * 3"],
    [{ kind: "taken", id: 4, count: 5 }, "taken 4 5"],
    [{ kind: "closed", id: 4, count: 5 }, "closed 4 5"],
  ];
  for (const [reply, line] of lines) expect(writeEgressReply(reply)).toBe(line);
});

/** the format strings of every egress_say() in guest/netd, as they are after the preprocessor */
function formatsInGuest(): string[] {
  const folder = join(import.meta.dirname, "../../guest/netd");
  const sources = globSync("*.c", { cwd: folder }).map((file) => readFileSync(join(folder, file), "utf8"));
  const formats = sources.flatMap((source) =>
    [...source.matchAll(/egress_say\((?:-1|fd),\s*((?:"(?:[^"\\]|\\.)*"|PRIu\d\d|\s)+)/g)].map(([, text = ""]) =>
      [...text.matchAll(/"((?:[^"\\]|\\.)*)"|PRI(u)\d\d/g)].map(([, part, unit]) => part ?? unit).join(""),
    ),
  );
  // One format serves two kinds of answer.
  return formats
    .map((format) => format.replaceAll('\\"', '"'))
    .flatMap((format) =>
      format.includes('"kind":"%s"') ? ["rechecked", "told"].map((kind) => format.replace("%s", kind)) : format,
    );
}

function filledIn(format: string): { kind: keyof typeof messages } {
  const text = format
    .replace('"program":"%s"', '"program":"6375726c"')
    .replace('"ancestry":[%s]', '"ancestry":[[1,1,1]]')
    .replace('"packet":"%s"', '"packet":"0aff"')
    .replace('"custom":%s', '"custom":true')
    .replaceAll("%s", "text")
    .replaceAll("%u", "1");
  const { msg, ...message } = JSON.parse(text);
  return msg ?? message;
}

function expected(kind: keyof typeof messages): object {
  const message = messages[kind];
  return {
    kind,
    ...message,
    ...("packet" in message && { packet }),
    ...("program" in message && { program: "curl" }),
  };
}
