/** Which error of the core each failure of a guest becomes. */

import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { errnoOf, failure, typed } from "./failure.ts";
import { FrameWriter, headerLength, Type, What } from "./wire.ts";

function failed(errno: number, what: number, sentence = "Cannot do it: because") {
  return failure(new FrameWriter().u32(errno).u8(what).str(sentence).frame(Type.fail, 1).subarray(headerLength));
}

describe("failure", () => {
  test.each([
    ["ENOENT", "not-found"],
    ["EEXIST", "exists"],
    ["EACCES", "forbidden"],
    ["ENOSPC", "limit"],
    ["EDQUOT", "limit"],
    ["EISDIR", "invalid"],
    ["ENOTEMPTY", "conflict"],
    ["EIO", "internal"],
  ] as const)("%s about a path is %s, with the guest's sentence", (name, code) => {
    const error = failed(constants.errno[name], What.path);
    expect(error).toMatchObject({ code, message: "Cannot do it: because" });
    expect(errnoOf(error)).toBe(constants.errno[name]);
  });

  test("a user, a working directory and an executable have codes of their own", () => {
    const codes = [What.user, What.cwd, What.executable].map((what) => failed(constants.errno.ENOENT, what).code);
    expect(codes).toEqual(["unknown-user", "bad-cwd", "unknown-executable"]);
  });

  test("what the kernel refuses us is no fault of the caller", () => {
    expect(failed(constants.errno.EPERM, What.system).code).toBe("internal");
    expect(failed(constants.errno.ENOSPC, What.system).code).toBe("no-room");
  });

  test("a full disk that Node's own calls meet is said without a folder of the host", () => {
    const words = "ENOSPC: no space left on device, rename '/data/store/.layer.json.1' -> '/data/store/layer.json'";
    const full = Object.assign(new Error(words), { errno: -constants.errno.ENOSPC, syscall: "rename" });
    expect(typed(full, "Cannot keep the files")).toMatchObject({
      code: "no-room",
      message: "Cannot keep the files: ENOSPC: no space left on device",
    });
  });

  test("an answer that cannot be read is an error all the same", () => {
    expect(failure(Buffer.from([1, 2, 3]))).toMatchObject({ code: "internal" });
    expect(errnoOf(new Error("another"))).toBeUndefined();
    expect(failed(1, What.path, "x".repeat(100_000)).message).toHaveLength(4096);
  });
});
