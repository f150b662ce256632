/** Watches the wire of test/internet/internet.ts: every packet between the host and the internet. */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { eventually, type Undo } from "../harness/harness.ts";
import { ended, type Internet } from "./internet.ts";
import { webAddress } from "./internet-names.ts";

/** everything except the protocols that resolve hardware addresses */
const traffic = "ip or (ip6 and not dst net ff00::/8 and not (ip6[6] == 58 and (ip6[40] == 135 or ip6[40] == 136)))";
const markerPort = 4242;
/** longer than the retransmission of a lost FIN takes, in ms */
const silence = 400;

/** Captures the packets between host and internet, in both directions. */
export async function watchWire(undo: Undo, internet: Internet): Promise<{ packets(): Promise<string[]> }> {
  const [file, args] = internet.world.command("tcpdump", "-n", "-l", "--immediate-mode", "-i", "wire", traffic);
  const capture = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"] });
  undo.defer(() => ended(capture));
  await new Promise<void>((resolve) => {
    capture.stderr.on("data", (chunk: Buffer) => chunk.includes("listening on") && resolve());
  });
  const seen: string[] = [];
  let last = performance.now();
  createInterface({ input: capture.stdout }).on("line", (line) => {
    last = performance.now();
    seen.push(line);
  });
  // Connections of earlier tests may still be closing.
  await eventually("the wire is silent", () => performance.now() - last > silence);
  seen.length = 0;
  return {
    packets: async () => {
      // A packet of our own marks the end: all earlier packets have been captured by then.
      const code = `import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", ("${webAddress}", ${markerPort}))`;
      const marker = spawn(...internet.host.command("python3", "-c", code), { stdio: "inherit" });
      await new Promise((resolve) => marker.once("exit", resolve));
      const end = await eventually("the marker is seen", () => {
        const at = seen.findIndex((line) => line.includes(`.${markerPort}:`));
        return at < 0 ? undefined : at;
      });
      await ended(capture);
      return seen.slice(0, end);
    },
  };
}
