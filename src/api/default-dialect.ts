/**
 * The default dialect of a daemon: its user names and paths apply inside every sandbox, its tokens carry keys on every
 * wire, and the messages for new users show its clients.
 */

export { keyOfToken, makeOidcToken } from "./vercel/account/token.ts";
export { clients, vercelConventions as conventions } from "./vercel/conventions.ts";
