/** Commands: start them in a session, follow their output, write to them, signal them, wait for them. */

import { constants } from "node:os";
import { z } from "zod";
import { within } from "../../../base/concurrency/waits.ts";
import { ndjson } from "../../kit/live.ts";
import { errorLine } from "../errors.ts";
import { answers, answersNothing, flag, operation, wholeNumber } from "../frame/operation.ts";
import { next, pageOf, pageQuery, printPage } from "../frame/paging.ts";
import { idOf } from "../frame/router.ts";
import {
  commandResource,
  newCommand,
  outputLine,
  outputLines,
  printCommand,
  terminalSize,
} from "../resources/command.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Commands";
const ofSession = { session: idOf("session") };
const params = { ...ofSession, command: idOf("command") };

/** longest that a request waits for a command to read its input, in ms */
const inputPatience = 30_000;
const longestWait = 3_600_000;
const mostInput = 1 << 20;

const signalNames = Object.keys(constants.signals) as [NodeJS.Signals, ...NodeJS.Signals[]];

export function commandOperations({ core, logError, limits, ending }: Dialect) {
  return [
    operation({
      id: "startCommand",
      method: "POST",
      path: "/sessions/{session}/commands",
      tag,
      summary: "Starts a program in a running session",
      description:
        "A program with a terminal can be attached to with a WebSocket, by any number of clients: add `/terminal` to " +
        "the command's path. docs/api.md describes the messages.",
      about: "session",
      params: ofSession,
      body: newCommand,
      answer: answers("The command, which runs or has ended already", commandResource, 201),
      async run({ caller, session, body: { command: name, timeout: timeLimit, terminal: pty, ...spec } }) {
        return printCommand(await core.commands.run(caller, session, { ...spec, name, timeLimit, pty }));
      },
    }),
    operation({
      id: "listCommands",
      method: "GET",
      path: "/sessions/{session}/commands",
      tag,
      summary: "Lists the commands of a session",
      about: "session",
      params: ofSession,
      query: {
        ...pageQuery,
        from: wholeNumber()
          .optional()
          .meta({ description: "Only those that ran at this time or later, in ms since 1970" }),
        to: wholeNumber().optional().meta({ description: "Only those that ran at this time or earlier" }),
      },
      answer: answers("A page of commands", z.object({ commands: z.array(commandResource), next })),
      async run({ caller, session, query: { from, to, ...page } }) {
        return printPage(
          "commands",
          await core.commands.page(caller, session, { ...pageOf(page), from, to }),
          printCommand,
        );
      },
    }),
    operation({
      id: "getCommand",
      method: "GET",
      path: "/sessions/{session}/commands/{command}",
      tag,
      summary: "Returns a command",
      about: "session",
      params,
      answer: answers("The command", commandResource),
      run: async ({ caller, session, params: { command } }) =>
        printCommand(await core.commands.get(caller, session, command)),
    }),
    operation({
      id: "waitForCommand",
      method: "GET",
      path: "/sessions/{session}/commands/{command}/wait",
      tag,
      summary: "Waits until a command or its session has ended",
      about: "session",
      params,
      query: {
        timeout: wholeNumber({ max: longestWait })
          .optional()
          .meta({ description: "Longest wait in milliseconds, by default 60000. `exitCode` is null if it still runs" }),
      },
      answer: answers("The command", commandResource),
      async run({ caller, session, params: { command }, query: { timeout = 60_000 }, request }) {
        const waiting = new AbortController();
        request.signal.addEventListener("abort", () => waiting.abort(), { once: true });
        try {
          const ended = await within(core.commands.wait(caller, session, command, waiting.signal), timeout);
          return printCommand(ended ?? (await core.commands.get(caller, session, command)));
        } finally {
          waiting.abort();
        }
      },
    }),
    operation({
      id: "readOutput",
      method: "GET",
      path: "/sessions/{session}/commands/{command}/output",
      tag,
      summary: "Returns the output of a command from an offset on, as lines of JSON",
      description:
        "After a broken connection, continue with `next` of the last line. With `encoding=base64` the bytes are exact; " +
        "text shows bytes that are not UTF-8 as U+FFFD. An empty line is only a sign of life.",
      about: "session",
      params,
      query: {
        from: wholeNumber().optional(),
        follow: flag().default(false).meta({ description: "Whether to go on until the command has ended" }),
        encoding: z.enum(["text", "base64"]).default("text"),
      },
      answer: { status: 200, description: "The output", others: { "application/x-ndjson": outputLine } },
      async run({ caller, session, params: { command }, query: { from = 0, follow, encoding } }) {
        const left = new AbortController();
        const options = { from, follow, signal: left.signal };
        const output = await core.commands.output(caller, session, command, options);
        return ndjson(
          (gone) => {
            gone.addEventListener("abort", () => left.abort(), { once: true });
            return outputLines(output, encoding);
          },
          { failure: (error) => errorLine(error, logError), patience: limits.patience, ending },
        );
      },
    }),
    operation({
      id: "writeInput",
      method: "POST",
      path: "/sessions/{session}/commands/{command}/input",
      tag,
      summary: "Writes to the standard input of a command, or to its terminal",
      description: "With an `offset`, a request that is sent again writes nothing twice.",
      about: "session",
      params,
      body: z.strictObject({
        data: z
          .string()
          .max(mostInput * 2)
          .default(""),
        encoding: z.enum(["text", "base64"]).default("text"),
        offset: z.int().min(0).optional().meta({ description: "Where the data begins, counted from the first byte" }),
        close: z.boolean().default(false).meta({ description: "Whether this is the end of the input" }),
      }),
      answer: answers(
        "What the command has taken",
        z.object({
          taken: z.int().meta({ description: "Bytes of all input that the command's pipe has taken" }),
          complete: z.boolean().meta({ description: "Whether these include all of the data" }),
        }),
      ),
      async run({ caller, session, params: { command }, body: { data, encoding, offset, close } }) {
        const input = { data: Buffer.from(data, encoding === "text" ? "utf8" : "base64"), offset, close };
        const fed = await core.commands.feed(caller, session, command, { ...input, patience: inputPatience });
        return { taken: fed.taken, complete: fed.isTaken };
      },
    }),
    operation({
      id: "signalCommand",
      method: "POST",
      path: "/sessions/{session}/commands/{command}/signal",
      tag,
      summary: "Sends a signal to a command and the processes that it started",
      about: "session",
      params,
      body: z.strictObject({
        signal: z.enum(signalNames).default("SIGTERM"),
        alone: z.boolean().default(false).meta({ description: "Whether only the first process gets it" }),
      }),
      answer: answers("The command", commandResource),
      async run({ caller, session, params: { command }, body: { signal, alone } }) {
        const number = constants.signals[signal];
        return printCommand(await core.commands.kill(caller, session, command, number, { alone }));
      },
    }),
    operation({
      id: "resizeTerminal",
      method: "POST",
      path: "/sessions/{session}/commands/{command}/resize",
      tag,
      summary: "Changes the size of a command's terminal",
      about: "session",
      params,
      body: z.strictObject(terminalSize),
      answer: answersNothing("It has the size"),
      async run({ caller, session, params: { command }, body }) {
        await core.commands.resize(caller, session, command, body);
        return undefined;
      },
    }),
  ];
}
