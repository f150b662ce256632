/**
 * Programs that keep logins for Docker: `docker-credential-<name> get` reads a registry on standard input, and prints
 * { "Username": …, "Secret": … }. It has ten seconds, and gets none of our own settings.
 */

import { spawn } from "node:child_process";
import { z } from "zod";
import { messageOf } from "../../../core/model/errors.ts";
import { type Login, tokenUser } from "./credentials.ts";

const patience = 10_000;
const longestAnswer = 64 << 10;

const answerOf = z.object({ Username: z.string(), Secret: z.string() });

/** undefined if it knows none; `warn` gets a sentence if it cannot be used, which never has the answer in it */
export async function askProgram(
  name: string,
  registry: string,
  warn: (sentence: string) => void,
): Promise<Login | undefined> {
  const program = `docker-credential-${name}`;
  const refuse = (why: string) => void warn(`Cannot use the program "${program}" for "${registry}": ${why}`);
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/.test(name)) return refuse("that is no name of a program");
  try {
    const { code, output } = await ask(program, registry === "docker.io" ? "https://index.docker.io/v1/" : registry);
    if (code !== 0) return /credentials not found/.test(output) ? undefined : refuse(`it ended with the code ${code}`);
    const answer = parsed(output);
    if (!answer) return refuse("its answer is not what it should be");
    const { Username: user, Secret: password } = answer;
    return user === tokenUser ? { user, password, isToken: true } : { user, password };
  } catch (error) {
    return refuse(messageOf(error));
  }
}

function parsed(output: string): z.infer<typeof answerOf> | undefined {
  try {
    return answerOf.safeParse(JSON.parse(output)).data;
  } catch {
    return undefined;
  }
}

function ask(program: string, server: string): Promise<{ code: number | null; output: string }> {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("SANDKEEP_")));
  return new Promise((resolve, reject) => {
    const child = spawn(program, ["get"], { env, stdio: ["pipe", "pipe", "ignore"] });
    const give = (why: string) => {
      clearTimeout(alarm);
      child.kill("SIGKILL");
      reject(new Error(why));
    };
    const alarm = setTimeout(() => give(`it did not answer within ${patience / 1000} s`), patience);
    const chunks: Buffer[] = [];
    let length = 0;
    child.once("error", (error) => give(messageOf(error)));
    child.stdout.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      length += chunk.length;
      if (length > longestAnswer) give("its answer is too long");
    });
    child.once("close", (code) => {
      clearTimeout(alarm);
      resolve({ code, output: Buffer.concat(chunks).toString() });
    });
    // It may end without reading.
    child.stdin.on("error", () => undefined);
    child.stdin.end(server);
  });
}
