/** An agent of eve whose model follows a script: it writes a file, runs a command on it, and tells what that printed. */

import { defineAgent } from "eve";
import { mockModel } from "eve/evals";

const calls = [
  { name: "write_file", input: { filePath: "/workspace/six.txt", content: "6" } },
  { name: "bash", input: { command: "cat seeded.txt; expr $(cat six.txt) '*' 7; id -un; pwd" } },
];

export default defineAgent({
  model: mockModel(({ toolResults }) => {
    const call = calls[toolResults.length];
    return call ? { toolCalls: [call] } : JSON.stringify(toolResults.map(({ output }) => output));
  }),
});
