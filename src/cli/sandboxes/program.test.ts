/** Tests of errors about programs: in the words of the command line, with the exit code of a shell. */

import { expect, test } from "vitest";
import { ApiError } from "../../client/client.ts";
import { Daemon } from "../client/daemon.ts";
import { Refusal } from "../errors.ts";
import { requireTerminal, startedOf } from "./program.ts";
import { inOwnWords } from "./run-refusal.ts";

test("a missing program is said once, with the exit code 127, and with a shell for a line of one", async () => {
  const places = { environment: { SANDKEEP_API_KEY: "sk_of_a_test_only" }, dataDirs: [] };
  const daemon = new Daemon({ url: "http://127.0.0.1:1" }, places);
  const refused = (words: string[], code: string) => {
    const message = `Cannot run "${words[0]}": it was not found`;
    return startedOf(daemon, words, Promise.reject(new ApiError(400, { code, message })));
  };
  await expect(refused(["nosuch", "a b"], "unknown_executable")).rejects.toMatchObject({
    exitCode: 127,
    message: 'Cannot run "nosuch": it was not found',
  });
  await expect(refused(["a && b"], "unknown_executable")).rejects.toMatchObject({
    exitCode: 127,
    message: `Cannot run "a && b": it was not found\nhint: to have a shell read it, write: sh -c 'a && b'`,
  });
  await expect(refused(["nosuch"], "bad_cwd")).rejects.toMatchObject({ exitCode: 1 });
});

test.each([
  ["`sandbox.vcpus` should be <= 32.", "--cpus should be <= 32."],
  ["`vcpus` should be <= 32.", "--cpus should be <= 32."],
  ["`sandbox.memory` should be >= 64.", "--memory should be >= 64m."],
  ["`timeout` should be <= 86400000 ms.", "--timeout should be <= 1d."],
  ["`sandbox.ports[0]` should be <= 65535.", "--port should be <= 65535."],
  ["`constructor` should be <= 1.", "`constructor` should be <= 1."],
])("a refusal names the option: %s", (given, said) => {
  expect(inOwnWords(new Refusal(given, 400))).toMatchObject({ message: said });
});

test("a program that was taken for an image is recognised, if there is no such image", () => {
  const error = new Refusal('Cannot run "hi": image "echo" is not here.', 400);
  expect(inOwnWords(error, ["echo", "hi there"])).toMatchObject({
    message: `${error.message}\nhint: to run "echo" in the default image: sandkeep run -- echo 'hi there'`,
  });
  expect(inOwnWords(error)).toMatchObject({ message: error.message });
  expect(inOwnWords(error, ["other"])).toMatchObject({ message: error.message });
});

test("without a terminal, the error is about what was written", () => {
  const nowhere = { input: {} as NodeJS.ReadStream, output: {} as NodeJS.WriteStream };
  expect(() => requireTerminal(nowhere, false)).toThrow(/^Cannot use -t: .+\nhint: leave out -t/);
  const shell = { what: 'open a shell in "demo"', hint: "another way" };
  expect(() => requireTerminal(nowhere, false, shell)).toThrow(
    /^Cannot open a shell in "demo": .+\nhint: another way$/,
  );
});
