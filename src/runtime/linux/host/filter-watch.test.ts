/** What /proc/vmallocinfo says of compiled filters. */

import { expect, test } from "vitest";
import { compiledFilters } from "./filter-watch.ts";

test("counts the memory of compiled filters and of nothing else", () => {
  const text = [
    "0xffffc90000000000-0xffffc90000005000   20480 kernel_clone+0x9c/0x3a0 pages=4 vmalloc N0=4",
    "0xffffffffa0000000-0xffffffffa0200000 2097152 bpf_prog_pack_alloc+0x9a/0x1f0 vmalloc",
    "0xffffffffa0200000-0xffffffffa0202000    8192 bpf_jit_alloc_exec+0xe/0x20 pages=1 vmalloc N0=1",
    "",
  ].join("\n");
  expect(compiledFilters(text)).toBe(2_105_344);
  expect(compiledFilters("")).toBe(0);
});
