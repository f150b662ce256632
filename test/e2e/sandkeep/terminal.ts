/** A client that is attached to a terminal over a WebSocket. */

interface Attached extends AsyncDisposable {
  socket: WebSocket;
  output(): string;
  messages(): unknown[];
}

/** `address` is the terminal's, beginning with http */
export async function attachedTo(address: string, key: string): Promise<Attached> {
  const socket = new WebSocket(address.replace("http", "ws"), ["sandkeep", `sandkeep.key.${key}`]);
  socket.binaryType = "arraybuffer";
  const parts: Buffer[] = [];
  const messages: unknown[] = [];
  socket.onmessage = ({ data }) => {
    if (typeof data === "string") messages.push(JSON.parse(data));
    else parts.push(Buffer.from(data));
  };
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = () => reject(new Error("The terminal was refused"));
  });
  return {
    socket,
    output: () => Buffer.concat(parts).toString(),
    messages: () => messages,
    async [Symbol.asyncDispose]() {
      socket.close();
    },
  };
}
