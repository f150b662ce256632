/** Which error of the core each failure of a guest becomes. */

import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { FrameWriter, headerLength, Type, What } from "../../../protocols/guest-frames.ts";
import { errnoOf, failure, ofClosedStore, ofReadOnlyStore, typed } from "./failure.ts";

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

  test("a user, a working directory and an executable that cannot be used are said to be invalid", () => {
    const errors = [What.user, What.cwd, What.executable].map((what) => failed(constants.errno.ENOENT, what));
    expect(errors.map(({ code, about }) => [code, about?.kind])).toEqual([
      ["invalid", "user"],
      ["invalid", "directory"],
      ["invalid", "executable"],
    ]);
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

  const { EIO, EROFS, ENOENT } = constants.errno;
  const ofNode = (errno: number) => Object.assign(new Error("it failed"), { errno: -errno });

  test.each([
    ["a guest's EIO", failed(EIO, What.system)],
    ["a guest's EROFS about a path", failed(EROFS, What.path)],
    ["Node's EIO, in other words", typed(ofNode(EIO), "Cannot stop it")],
    ["a mount that the kernel refuses", failed(constants.errno.EINVAL, What.system)],
    ["one behind two others", new Error("outer", { cause: new Error("inner", { cause: ofNode(EROFS) }) })],
  ])("%s is said to come of a store that is read-only, while it is", (_, error) => {
    expect(ofReadOnlyStore(error, "run it", () => true)).toMatchObject({
      code: "no-room",
      message: "Cannot run it: the store of all sandboxes is read-only until the host's disk has room",
    });
    expect(ofReadOnlyStore(error, "run it", () => false)).toBe(error);
  });

  test("another error is not said to come of it, and the store is not looked at", () => {
    const look = () => {
      throw new Error("It was looked at");
    };
    for (const error of [failed(ENOENT, What.path), new Error("any"), "a text"]) {
      expect(ofReadOnlyStore(error, "run it", look)).toBe(error);
    }
  });

  test("what seems to be missing while the store is mounted anew is not said to be missing", () => {
    for (const error of [failed(ENOENT, What.path), failed(EIO, What.system), ofNode(ENOENT)]) {
      expect(ofClosedStore(error)).toMatchObject({ code: "unavailable" });
    }
    const gone = failed(constants.errno.EPIPE, What.path);
    expect(ofClosedStore(gone)).toBe(gone);
  });

  test("an answer that cannot be read is an error all the same", () => {
    expect(failure(Buffer.from([1, 2, 3]))).toMatchObject({ code: "internal" });
    expect(errnoOf(new Error("another"))).toBeUndefined();
    expect(failed(1, What.path, "x".repeat(100_000)).message).toHaveLength(4096);
  });
});
