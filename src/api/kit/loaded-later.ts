/**
 * Modules that a daemon loads when they are first needed. When another build of the package is installed, the files of the
 * build that runs are gone, and with them what it has not loaded yet.
 */

import { codeOf } from "../../base/error-code.ts";
import { SandkeepError } from "../../core/model/errors.ts";

/** loads it at the first call, and again if that has failed */
export function loadedLater<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined;
  return async () => {
    loading ??= load();
    try {
      return await loading;
    } catch (error) {
      loading = undefined;
      if (codeOf(error) !== "ERR_MODULE_NOT_FOUND") throw error;
      const why = "another build of Sandkeep was installed since this daemon began";
      throw new SandkeepError("unavailable", `Cannot answer: ${why}; restart the daemon; sandboxes keep running`, {
        cause: error,
      });
    }
  };
}
