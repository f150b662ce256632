/** The paths of MCP: each of them has one family of tools (families.ts). */

export const familyPaths = ["/mcp", "/mcp/veryfront"] as const;

export type FamilyPath = (typeof familyPaths)[number];
