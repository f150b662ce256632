/** The evals need no settings of their own. */

import { defineEvalConfig } from "eve/evals";

export default defineEvalConfig({});
