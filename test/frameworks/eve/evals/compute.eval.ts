/** Runs the agent once, in its sandbox. */

import { defineEval } from "eve/evals";

export default defineEval({
  async test(t) {
    await t.send("Compute 6 * 7");
    t.succeeded();
  },
});
