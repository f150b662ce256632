/**
 * The dialect that a daemon shows first: its names and places hold inside every sandbox, its tokens carry keys on every
 * wire, and a new user is told how to use its clients.
 */

export { clients, vercelConventions as conventions } from "./vercel/conventions.ts";
export { keyOfToken, makeOidcToken } from "./vercel/token.ts";
