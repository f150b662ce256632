/** What Veryfront's reference says about its MCP tool `list_sandbox_sessions`: what it takes and what it returns. */

import { anyObject, arrayOf, exactly, integer, oneOf, orNull, type Schema, string } from "./schema.ts";

export const listInput: Schema = {
  type: "object",
  properties: {
    project_id: { ...string, format: "uuid" },
    cursor: string,
    limit: { ...integer, minimum: 1, maximum: 100 },
  },
  additionalProperties: false,
};

export const listOutput: Schema = exactly({
  data: arrayOf(
    exactly({
      id: string,
      short_id: string,
      endpoint: string,
      status: string,
      ttl_mode: oneOf("default", "duration", "always_on"),
      ttl_hours: orNull({ ...integer, exclusiveMinimum: 0 }),
      expires_at: orNull(string),
      created_at: string,
      project_id: orNull(string),
      last_activity_at: orNull(string),
    }),
  ),
  page_info: exactly({ self: orNull(string), first: anyObject, next: orNull(string), prev: orNull(string) }),
});
