/** Control groups of every kind of host, from the text of its mountinfo; on this host, folders stand in for the kernel. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { tempDir } from "../../../../test/harness/harness.ts";
import {
  allProcesses,
  type CgroupHost,
  existingCgroups,
  findCgroups,
  foldersOf,
  joinedFolders,
  limitWrites,
  type MachineCgroup,
  machineCgroup,
  makeCgroup,
  makeParent,
  memoryEvents,
  readUsage,
  removeCgroup,
  setLimits,
} from "./cgroup.ts";

const pure = `22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate
`;
const hybrid = `22 28 0:20 / /sys rw,nosuid - sysfs sysfs rw
30 22 0:26 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw
33 30 0:30 / /sys/fs/cgroup/memory rw shared:7 - cgroup cgroup rw,memory
34 30 0:31 / /sys/fs/cgroup/pids rw shared:8 master:2 - cgroup cgroup rw,pids
35 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
36 30 0:33 / /sys/fs/cgroup/freezer rw - cgroup cgroup rw,freezer
`;
const old = hybrid.replace(/^31 .*\n/m, "");

describe("which control groups a host has", () => {
  test("the v2 tree alone when it offers every controller", () => {
    const host = findCgroups(pure, () => "cpuset cpu io memory hugetlb pids\n");
    const tree = "/sys/fs/cgroup";
    expect(host).toEqual({ version: 2, unified: tree, cpu: tree, memory: tree, pids: tree });
  });

  test("v1 controllers beside a v2 tree that has none of them", () => {
    expect(findCgroups(hybrid, () => "hugetlb\n")).toEqual({
      version: 1,
      unified: "/sys/fs/cgroup/unified",
      cpu: "/sys/fs/cgroup/cpu,cpuacct",
      memory: "/sys/fs/cgroup/memory",
      pids: "/sys/fs/cgroup/pids",
    });
  });

  test("v1 alone needs the freezer and the account of processor time as well", () => {
    expect(findCgroups(old, () => "")).toMatchObject({
      version: 1,
      freezer: "/sys/fs/cgroup/freezer",
      cpuacct: "/sys/fs/cgroup/cpu,cpuacct",
    });
  });

  test("a host that lacks a controller is refused, by its name", () => {
    const lacking = hybrid.replace(/^34 .*\n/m, "");
    const refusal = { code: "unsupported", message: expect.stringMatching(/no cgroup controller for pids$/) };
    expect(() => findCgroups(lacking, () => "hugetlb")).toThrowError(expect.objectContaining(refusal));
    expect(() => findCgroups(pure, () => "cpu memory")).toThrowError(expect.objectContaining({ code: "unsupported" }));
    expect(() => findCgroups("", () => "")).toThrowError(/cpu, memory, pids$/);
  });

  test("a controller's name must be a whole word", () => {
    expect(() => findCgroups(pure, () => "cpuset memory pids")).toThrowError(/cpu, memory, pids$/);
  });
});

describe("the folders of a machine", () => {
  const hosts = {
    v1: findCgroups(old, () => ""),
    hybrid: findCgroups(hybrid, () => ""),
    v2: findCgroups(pure, () => "cpu memory pids"),
  };

  test("are each there once, and joined one by one only where the kernel does not do it at birth", () => {
    const folders = (host: CgroupHost) => foldersOf(machineCgroup(host, "sandkeep-x", "m1"));
    const joined = (host: CgroupHost) => joinedFolders(machineCgroup(host, "sandkeep-x", "m1"));
    expect(folders(hosts.v2)).toEqual(["/sys/fs/cgroup/sandkeep-x/m1"]);
    expect(joined(hosts.v2)).toEqual([]);
    expect(folders(hosts.hybrid)).toHaveLength(4);
    expect(joined(hosts.hybrid)).toHaveLength(3);
    expect(joined(hosts.hybrid)).not.toContain("/sys/fs/cgroup/unified/sandkeep-x/m1");
    expect(folders(hosts.v1)).toHaveLength(4);
    expect(joined(hosts.v1)).toEqual(folders(hosts.v1));
  });

  test("say where kills for memory are counted", () => {
    const file = (host: CgroupHost) => memoryEvents(machineCgroup(host, "p", "m"));
    expect(file(hosts.v2)).toBe("/sys/fs/cgroup/p/m/memory.events");
    expect(file(hosts.hybrid)).toBe("/sys/fs/cgroup/memory/p/m/memory.oom_control");
  });
});

describe("what is written for limits", () => {
  const v1: MachineCgroup = { version: 1, cpu: "/cpu", memory: "/memory", pids: "/pids", unified: "/unified" };
  const v2: MachineCgroup = { version: 2, cpu: "/c", memory: "/c", pids: "/c", unified: "/c" };

  test("on v1", () => {
    expect(limitWrites(v1, { vcpus: 1.5, memory: 1000, pids: 7, disk: 5 })).toEqual([
      ["/cpu/cpu.cfs_quota_us", "150000"],
      ["/memory/memory.limit_in_bytes", "1000"],
      ["/memory/memory.memsw.limit_in_bytes", "1000"],
      ["/memory/memory.kmem.tcp.limit_in_bytes", "8388608"],
      ["/pids/pids.max", "7"],
    ]);
  });

  test("on v2", () => {
    expect(limitWrites(v2, { vcpus: 0.5, memory: 1000, pids: 7, disk: 5 })).toEqual([
      ["/c/cpu.max", "50000 100000"],
      ["/c/memory.max", "1000"],
      ["/c/memory.swap.max", "0"],
      ["/c/pids.max", "7"],
    ]);
  });

  test("nothing for limits that are not given, and never less time than the kernel takes", () => {
    expect(limitWrites(v2, {})).toEqual([]);
    expect(limitWrites(v1, { pids: 9 })).toEqual([["/pids/pids.max", "9"]]);
    expect(limitWrites(v2, { vcpus: 0.001 })).toEqual([["/c/cpu.max", "1000 100000"]]);
  });
});

test("machines together leave an eighth of the host's process numbers, and at least a thousand", () => {
  expect(allProcesses(32_768, 192_700)).toBe(28_672);
  expect(allProcesses(4_194_304, 4096)).toBe(3072);
});

describe("reading and writing", () => {
  async function folders(version: 1 | 2): Promise<MachineCgroup> {
    const root = await tempDir();
    const one = version === 2 ? join(root, "m") : undefined;
    const cgroup: MachineCgroup = {
      version,
      unified: one ?? join(root, "unified/m"),
      cpu: one ?? join(root, "cpu/m"),
      memory: one ?? join(root, "memory/m"),
      pids: one ?? join(root, "pids/m"),
    };
    makeCgroup(cgroup);
    return cgroup;
  }

  test("use is read from the files of v2", async () => {
    const cgroup = await folders(2);
    const files = {
      "cpu.stat": "usage_usec 1234567\nuser_usec 1000000\n",
      "memory.current": "4096\n",
      "memory.peak": "8192\n",
      "memory.stat": "anon 1000\nfile 2000\nkernel 1096\n",
      "pids.current": "3\n",
      "memory.events": "low 0\nhigh 0\nmax 9\noom 2\noom_kill 1\noom_group_kill 0\n",
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(join(cgroup.memory, name), text);
    expect(readUsage(cgroup)).toEqual({
      cpuTime: 1234.567,
      memory: 4096,
      cache: 2000,
      peakMemory: 8192,
      processes: 3,
      outOfMemoryKills: 1,
    });
  });

  test("use is read from the files of v1, and processor time from wherever it is counted", async () => {
    const cgroup = await folders(1);
    writeFileSync(join(cgroup.memory, "memory.usage_in_bytes"), "5000\n");
    writeFileSync(join(cgroup.memory, "memory.max_usage_in_bytes"), "6000\n");
    writeFileSync(join(cgroup.memory, "memory.stat"), "cache 1500\nrss 3500\n");
    writeFileSync(join(cgroup.memory, "memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    writeFileSync(join(cgroup.pids, "pids.current"), "2\n");
    writeFileSync(join(cgroup.unified ?? "", "cpu.stat"), "usage_usec 2000\n");
    expect(readUsage(cgroup)).toEqual({
      cpuTime: 2,
      memory: 5000,
      cache: 1500,
      peakMemory: 6000,
      processes: 2,
      outOfMemoryKills: 4,
    });
    const { unified: _, ...alone } = cgroup;
    writeFileSync(join(cgroup.cpu, "cpuacct.usage"), "3000000\n");
    expect(readUsage({ ...alone, cpuacct: cgroup.cpu }).cpuTime).toBe(3);
  });

  test("a machine whose folders are gone has used nothing", async () => {
    const cgroup = await folders(2);
    expect(removeCgroup(foldersOf(cgroup))).toBe(true);
    expect(readUsage(cgroup)).toEqual({
      cpuTime: 0,
      memory: 0,
      cache: 0,
      peakMemory: 0,
      processes: 0,
      outOfMemoryKills: 0,
    });
  });

  test("limits are written, and swap that cannot be limited is passed over", async () => {
    const cgroup = await folders(2);
    mkdirSync(join(cgroup.memory, "memory.swap.max"));
    setLimits(cgroup, { vcpus: 2, memory: 1 << 30, pids: 10 });
    expect(readFileSync(join(cgroup.memory, "memory.max"), "utf8")).toBe(`${1 << 30}`);
    expect(readFileSync(join(cgroup.cpu, "cpu.max"), "utf8")).toBe("200000 100000");
    mkdirSync(join(cgroup.pids, "pids.peak"));
    removeCgroup([join(cgroup.pids, "pids.peak")]);
  });

  test("what the kernel refuses is an error that names the file", async () => {
    const cgroup = await folders(2);
    mkdirSync(join(cgroup.pids, "pids.max"));
    expect(() => setLimits(cgroup, { pids: 5 })).toThrowError(/refuses 5 for .*pids\.max$/);
  });

  test("removing says whether all is gone, and what was gone before is no error", async () => {
    const cgroup = await folders(1);
    mkdirSync(join(cgroup.cpu, "busy"));
    expect(removeCgroup(foldersOf(cgroup))).toBe(false);
    removeCgroup([join(cgroup.cpu, "busy")]);
    expect(removeCgroup(foldersOf(cgroup))).toBe(true);
    expect(removeCgroup(foldersOf(cgroup))).toBe(true);
  });

  test("on v2 the controllers are handed down to the runtime's own folder, in which its machines are found", async () => {
    const root = await tempDir();
    const host: CgroupHost = { version: 2, unified: root, cpu: root, memory: root, pids: root };
    const parents = makeParent(host, "sandkeep-x");
    expect(parents).toEqual([join(root, "sandkeep-x")]);
    for (const folder of [root, ...parents]) {
      expect(readFileSync(join(folder, "cgroup.subtree_control"), "utf8")).toBe("+cpu +memory +pids");
    }
    makeCgroup(machineCgroup(host, "sandkeep-x", "m1"));
    expect(existingCgroups(parents)).toEqual([join(root, "sandkeep-x/m1")]);
    expect(existingCgroups([join(root, "nosuch")])).toEqual([]);
  });
});
