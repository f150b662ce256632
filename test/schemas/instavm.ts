/** What InstaVM's reference says about the shape of `GET /v1/sessions/sandboxes`. */

import { anyObject, arrayOf, integer, object, orNull, string } from "./schema.ts";

export const sandboxList = arrayOf(
  object(
    { sandbox_id: string, name: string, metadata: anyObject, started_at: string, status: string },
    { template_id: orNull(string), end_at: orNull(string) },
  ),
);

/** of a 422, which is how every route refuses */
export const refusal = object(
  {},
  { detail: arrayOf(object({ loc: arrayOf({ anyOf: [string, integer] }), msg: string, type: string })) },
);
