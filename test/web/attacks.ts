/**
 * What a page tries against the dashboard in the browser of a person who is signed in: to read, to change, to open the
 * shell, to frame the dashboard, to hold its window, and to put cookies into its way.
 */

import type { Page } from "playwright-core";

interface Target {
  /** origin of the dashboard */
  home: string;
  /** path of a terminal in which a shell runs */
  terminal: string;
  /** what the page of the dashboard adds to its requests, as if it had leaked: it must be of no use elsewhere */
  binding: string;
  /** cookies that the attacker would like the dashboard to use, as name=value */
  cookies: readonly string[];
  /** a domain of both hosts that they are set for, besides the attacker's own host; empty if there is none */
  domain: string;
}

/** What the attacking page itself sees. */
interface Seen {
  /** a read as it is, and one with the leaked value */
  read: string[];
  changed: string[];
  script: string;
  sockets: string[];
  /** what it has of a window that it opened */
  held: string;
}

/** What a browser sent to the daemon's API, and what the daemon answered. */
interface Sent {
  what: string;
  cookie: string;
  /** 0 without an answer */
  status: number;
}

/** runs in the attacking page */
export async function attack({ home, terminal, binding, cookies, domain }: Target): Promise<Seen> {
  const api = `${home}/sandkeep/v1/sandboxes`;
  const outcome = (request: Promise<Response>) =>
    request.then(
      ({ type, status }) => (type === "opaque" ? "sent" : String(status)),
      () => "blocked",
    );
  const headers = { "x-sandkeep-session": binding };
  const read = await Promise.all([
    outcome(fetch(api, { credentials: "include" })),
    outcome(fetch(api, { credentials: "include", headers })),
  ]);
  const body = JSON.stringify({ name: "pwned" });
  // The browser sends the first without asking the target, and shows the page nothing of the answer.
  const changed = await Promise.all([
    outcome(fetch(api, { method: "POST", mode: "no-cors", credentials: "include", body })),
    outcome(fetch(api, { method: "POST", credentials: "include", headers, body })),
  ]);
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: api, enctype: "text/plain", target: "x" });
  form.append(Object.assign(document.createElement("input"), { name: '{"name":"pwned","tags":{"x":"', value: '"}}' }));
  const hidden = Object.assign(document.createElement("iframe"), { name: "x" });
  document.body.append(hidden, form);
  // Its first load is that of nothing.
  await new Promise((resolve) => {
    hidden.addEventListener("load", resolve);
    form.submit();
  });
  hidden.remove();

  const script = await new Promise<string>((resolve) => {
    const element = Object.assign(document.createElement("script"), { src: api });
    element.addEventListener("load", () => resolve("ran"));
    element.addEventListener("error", () => resolve("blocked"));
    document.body.append(element);
  });

  const address = `${home.replace("http", "ws")}${terminal}`;
  const sockets = [["sandkeep"], ["sandkeep", `sandkeep.session.${binding}`]].map(
    (protocols) =>
      new Promise<string>((resolve) => {
        const socket = new WebSocket(address, protocols);
        socket.addEventListener("open", () => {
          socket.send(new TextEncoder().encode("touch /tmp/pwned\n"));
          resolve("open");
        });
        socket.addEventListener("error", () => resolve("refused"));
      }),
  );

  for (const cookie of cookies) {
    for (const path of ["/", "/ui", "/ui/session", "/sandkeep"]) {
      for (const where of domain === "" ? [""] : ["", `; domain=${domain}`]) {
        // biome-ignore lint/suspicious/noDocumentCookie: every page has this way, also where there is no other
        document.cookie = `${cookie}; path=${path}${where}`;
      }
    }
  }

  for (const name of ["iframe", "object"] as const) {
    const frame = document.createElement(name);
    const loaded = new Promise((resolve) => {
      frame.addEventListener("load", resolve);
      frame.addEventListener("error", resolve);
    });
    Object.assign(frame, { [name === "iframe" ? "src" : "data"]: `${home}/ui/` });
    document.body.append(frame);
    await loaded;
  }

  const other = open(`${home}/ui/`);
  let held = "nothing";
  // The window is lost when the other page arrives, if it is.
  for (let tries = 0; tries < 20 && held === "nothing"; tries++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
    if (!other || other.closed) held = "lost";
  }
  if (held === "nothing" && other) {
    try {
      held = `its document: ${other.document.title}`;
    } catch {
      held = "only its window";
    }
  }
  other?.close();
  return { read, changed, script, sockets: await Promise.all(sockets), held };
}

/** how many frames of a page show the dashboard */
export async function dashboardsIn(page: Page): Promise<number> {
  const counts = page
    .frames()
    .filter((frame) => frame !== page.mainFrame())
    .map((frame) => frame.locator("#app").count());
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

/** notes what a page sends to an address, also what the page itself learns nothing of */
export async function watchSent(page: Page, address: string): Promise<() => Sent[]> {
  const devtools = await page.context().newCDPSession(page);
  const requests = new Map<string, Sent>();
  const of = (id: string) => {
    const known = requests.get(id) ?? { what: "", cookie: "", status: 0 };
    requests.set(id, known);
    return known;
  };
  devtools.on("Network.requestWillBeSent", ({ requestId, request: { method, url } }) => {
    of(requestId).what = `${method} ${url}`;
  });
  devtools.on("Network.requestWillBeSentExtraInfo", ({ requestId, headers }) => {
    const [, cookie = ""] = Object.entries(headers).find(([name]) => name.toLowerCase() === "cookie") ?? [];
    of(requestId).cookie = cookie;
  });
  devtools.on("Network.responseReceivedExtraInfo", ({ requestId, statusCode }) => {
    of(requestId).status = statusCode;
  });
  await devtools.send("Network.enable");
  return () => [...requests.values()].filter(({ what }) => what.split(" ")[1]?.startsWith(address));
}
