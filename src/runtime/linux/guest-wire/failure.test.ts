/** Which error of the core each failure of a guest becomes. */

import { constants } from "node:os";
import { describe, expect, test } from "vitest";
import { FrameWriter, headerLength, Type, What } from "../../../protocols/guest-frames.ts";
import {
  errnoOf,
  explaining,
  failure,
  isWorthAnotherBoot,
  ofClosedStore,
  ofFailedStore,
  ofTwoBoots,
  typed,
} from "./failure.ts";

function failed(errno: number, what: number, sentence = "Cannot do it: because") {
  return failure(new FrameWriter().u32(errno).u8(what).str(sentence).frame(Type.fail, 1).subarray(headerLength));
}

describe("failure", () => {
  test.each([
    ["ENOENT", "not-found"],
    ["EEXIST", "exists"],
    ["EACCES", "forbidden"],
    ["EROFS", "forbidden"],
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
    const other = Object.assign(new Error("ENOSPC, No space: /data '/data'"), {
      errno: constants.errno.ENOSPC,
      syscall: "rm",
    });
    expect(typed(other, "Cannot keep the files")).toMatchObject({
      code: "no-room",
      message: "Cannot keep the files: ENOSPC: no space left on device",
    });
  });

  test("so is a reached limit of the store, for which Node has no name", () => {
    const number = -constants.errno.EDQUOT;
    const words = `Unknown system error ${number}`;
    const limited = Object.assign(new Error(`${words}, rename '/data/store/machines/m1/volume'`), {
      errno: number,
      code: words,
    });
    expect(typed(limited, "Cannot keep the files")).toMatchObject({
      code: "no-room",
      message: "Cannot keep the files: EDQUOT: disk quota exceeded",
    });
  });

  const { EIO, EROFS, ENOENT } = constants.errno;
  const ofNode = (errno: number) => Object.assign(new Error("it failed"), { errno: -errno });

  const shortage = "the host's disk has 1 MiB left, and 2 MiB are kept in reserve";
  const look = (isReadOnly: boolean, short?: string) => ({ isReadOnly: () => isReadOnly, shortage: () => short });
  const readOnly = "Cannot run it: the store of all sandboxes is read-only, as a write to the disk below it failed";
  const failedStore: [string, unknown][] = [
    ["a guest's EIO", failed(EIO, What.system)],
    ["a guest's EROFS about a path", failed(EROFS, What.path)],
    ["Node's EIO, in other words", typed(ofNode(EIO), "Cannot stop it")],
    ["an EIO that Node did not negate", Object.assign(new Error(", Unknown error: '/data/store'"), { errno: EIO })],
    ["a mount that the kernel refuses", failed(constants.errno.EINVAL, What.system)],
    ["one behind two others", new Error("outer", { cause: new Error("inner", { cause: ofNode(EROFS) }) })],
  ];

  test.each(failedStore)("%s is said to come of a store that is read-only, and why", (_, error) => {
    expect(ofFailedStore(error, "run it", look(true, shortage))).toMatchObject({
      code: "no-room",
      message: `${readOnly}; it is mounted again by itself once there is room: ${shortage}`,
    });
    expect(ofFailedStore(error, "run it", look(true))).toMatchObject({
      code: "unavailable",
      message: `${readOnly}; it is mounted again by itself in a moment`,
    });
  });

  test("a disk that fails before the store is read-only is said to have no room, or to have failed", () => {
    expect(ofFailedStore(ofNode(EIO), "run it", look(false, shortage))).toMatchObject({
      code: "no-room",
      message: `Cannot run it: ${shortage}`,
    });
    expect(ofFailedStore(ofNode(EIO), "run it", look(false))).toMatchObject({
      code: "unavailable",
      message: "Cannot run it: the disk below the store of all sandboxes has failed",
    });
    // Some files inside a sandbox always answer so.
    const own = failed(EIO, What.path);
    expect(ofFailedStore(own, "run it", look(false))).toBe(own);
  });

  test("a sandbox whose limit is reached is said to be at its limit, unless the host's disk is short of room", () => {
    const own = failed(constants.errno.EDQUOT, What.path);
    expect(ofFailedStore(own, "write it", look(false))).toBe(own);
    expect(ofFailedStore(own, "write it", look(false, shortage))).toMatchObject({
      code: "no-room",
      message: `Cannot write it: ${shortage}`,
    });
  });

  test("another error is not said to come of it, and the store is not looked at", () => {
    const never = () => {
      throw new Error("It was looked at");
    };
    // A number of zlib's own, which is also the kernel's of a failed disk.
    const ofZlib = new Error("cut off", { cause: Object.assign(new Error("end"), { errno: -5, code: "Z_BUF_ERROR" }) });
    for (const error of [failed(ENOENT, What.path), new Error("any"), "a text", ofZlib]) {
      expect(ofFailedStore(error, "run it", { isReadOnly: never, shortage: never })).toBe(error);
    }
  });

  test("what seems to be missing while the store is mounted anew is not said to be missing", () => {
    const readOnlyPath = typed(ofNode(EROFS), "Cannot keep it");
    for (const error of [failed(ENOENT, What.path), failed(EIO, What.system), ofNode(ENOENT), readOnlyPath]) {
      expect(ofClosedStore(error, undefined)).toMatchObject({ code: "unavailable" });
      expect(ofClosedStore(error, shortage)).toMatchObject({
        code: "no-room",
        message: `Cannot use sandboxes: their store became read-only and is being mounted again, which needs room: ${shortage}`,
      });
    }
    const gone = failed(constants.errno.EPIPE, What.path);
    expect(ofClosedStore(gone, undefined)).toBe(gone);
  });

  test("a sandbox that died twice while it was started had no room, or is worth asking for again", () => {
    const died = failed(constants.errno.ESRCH, What.system, "Cannot start the sandbox: its first process died");
    const gone = failed(constants.errno.EPIPE, What.path, "The connection to the sandbox has ended");
    for (const error of [died, gone]) {
      expect(isWorthAnotherBoot(error)).toBe(true);
      expect(ofTwoBoots(error, shortage)).toMatchObject({
        code: "no-room",
        message: `Cannot start a sandbox: ${shortage}`,
      });
    }
    expect(ofTwoBoots(gone, undefined)).toMatchObject({ code: "unavailable" });
    const invalid = failed(constants.errno.EINVAL, What.path);
    expect(isWorthAnotherBoot(invalid)).toBe(false);
    expect(ofTwoBoots(invalid, shortage)).toBe(invalid);
  });

  test("the errors of an object's methods are explained, whether they are thrown or rejected with", async () => {
    class Store {
      readonly #secret = "kept";
      readonly kind = "plain";
      read = () => this.#secret;
      throws(): string {
        throw new Error(this.#secret);
      }
      async rejects(): Promise<string> {
        return this.throws();
      }
    }
    const store = explaining(new Store(), (error) => new Error("explained", { cause: error }));
    expect([store.kind, store.read()]).toEqual(["plain", "kept"]);
    expect(() => store.throws()).toThrow("explained");
    await expect(store.rejects()).rejects.toThrow("explained");
  });

  test("an answer that cannot be read is an error all the same", () => {
    expect(failure(Buffer.from([1, 2, 3]))).toMatchObject({ code: "internal" });
    expect(errnoOf(new Error("another"))).toBeUndefined();
    expect(failed(1, What.path, "x".repeat(100_000)).message).toHaveLength(4096);
  });
});
