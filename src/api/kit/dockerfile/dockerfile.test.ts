/** Plans of Dockerfiles: the step of each instruction, and what is refused before anything runs. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are the variables of a Dockerfile

import { describe, expect, test } from "vitest";
import { type CopyAction, emptySettings, type ImageSettings, type RunAction } from "../../../core/builds/build-plan.ts";
import { readDockerfile } from "./dockerfile.ts";

const base: ImageSettings = { ...emptySettings(), env: { PATH: "/bin" }, command: ["old"], user: "app", cwd: "/srv" };

function plan(text: string, options: { buildArgs?: Record<string, string>; target?: string } = {}) {
  const file = readDockerfile(text, { buildArgs: {}, platform: "linux/amd64", ...options });
  return file.plan(new Map(file.images.map((name) => [name, base])));
}

/** the steps of the last stage */
function steps(text: string, options = {}) {
  return (plan(text, options).stages.at(-1)?.steps ?? []).map(({ action }) => action);
}

describe("stages", () => {
  test("only the stages that the target needs are planned, and only their images requested", () => {
    const text = `ARG TAG=1
FROM unused:9 AS other
RUN x
FROM tools:$TAG AS build
RUN make
FROM scratch
COPY --from=build /out /
COPY --from=docs:2 /doc /doc
FROM build AS again`;
    const file = readDockerfile(text, { buildArgs: { TAG: "7" }, platform: "linux/amd64", target: "2" });
    expect(file.images.sort()).toEqual(["docs:2", "tools:7"]);
    const { stages, target } = file.plan(new Map());
    expect(target).toBe(2);
    expect(stages.map(({ base }) => base)).toEqual([
      { image: "unused:9" },
      { image: "tools:7" },
      "scratch",
      { stage: 1 },
    ]);
    expect(stages[0]?.steps).toEqual([]);
    expect(stages[2]?.steps.map(({ action }) => (action as CopyAction).from)).toEqual([
      { stage: 1 },
      { image: "docs:2" },
    ]);
  });

  test("a platform other than this host's is refused, and this host's may be named in any way", () => {
    expect(plan("FROM --platform=$BUILDPLATFORM a").stages).toHaveLength(1);
    expect(plan("FROM --platform=linux/x86_64 a").stages).toHaveLength(1);
    expect(() => plan("FROM --platform=linux/arm64 a")).toThrow(
      'line 1: the platform "linux/arm64" is not supported: this host is linux/amd64',
    );
  });
});

test("variables come from ENV, build arguments and the defaults of ARG, in this order of precedence", () => {
  const text = `ARG GLOBAL=g
FROM a
ARG GLOBAL
ARG WITH=default$GLOBAL
ARG NONE
ARG TARGETARCH
ENV A=1 B="x $WITH" PATH=$PATH:/opt
ENV A=2 C=$A
ENV OLD  two  words
RUN echo $A`;
  const run = steps(text, { buildArgs: { WITH: "w", EXTRA: "e" } }).at(-1) as RunAction;
  expect(run.argv).toEqual(["/bin/sh", "-c", "echo $A"]);
  expect(run.env).toEqual({
    GLOBAL: "g",
    WITH: "w",
    TARGETARCH: "amd64",
    A: "2",
    B: "x w",
    C: "1",
    OLD: "two  words",
    PATH: "/bin:/opt",
  });
  expect(plan(text, { buildArgs: { EXTRA: "e" } }).notes).toEqual([
    'The build argument "EXTRA" was given, and no ARG has that name',
  ]);
});

test("an image keeps the settings of its base unless its stage changes them", () => {
  const { settings } = plan("FROM a\nLABEL x=y z='q r'\nEXPOSE 80 53/UDP 80/tcp\nSTOPSIGNAL SIGQUIT").stages[0] ?? {};
  expect(settings).toEqual({
    ...base,
    labels: { x: "y", z: "q r" },
    ports: ["80/tcp", "53/udp"],
    stopSignal: "SIGQUIT",
  });
  const volumes = plan('FROM a\nENV D=/data\nVOLUME $D /x\nVOLUME ["/x", "/a b"]');
  expect(volumes.stages[0]?.settings.volumes).toEqual(["/data", "/x", "/a b"]);
  expect(volumes.notes).toEqual(["VOLUME is on record only: a sandbox keeps these directories with its other files"]);
  const other = plan('FROM a\nUSER 10:20\nWORKDIR sub\nSHELL ["/bin/bash", "-ec"]\nENTRYPOINT run it\nWORKDIR ../b')
    .stages[0];
  expect(other?.settings).toMatchObject({
    user: "10:20",
    cwd: "/srv/b",
    entrypoint: ["/bin/bash", "-ec", "run it"],
    command: [],
  });
  expect(plan('FROM a\nCMD ["x"]\nENTRYPOINT ["y"]').stages[0]?.settings).toMatchObject({ command: ["x"] });
});

test("a stage of an image with ONBUILD is refused, unless the target does not need it", () => {
  const file = (target: string) =>
    readDockerfile("FROM a AS x\nFROM scratch AS y", { buildArgs: {}, platform: "linux/amd64", target });
  const images = new Map([["a", { ...base, onBuild: ["COPY . /src"] }]]);
  expect(() => file("x").plan(images)).toThrow("line 1: the image has ONBUILD COPY . /src, which is not supported");
  expect(file("y").plan(images).stages).toHaveLength(2);
});

test("RUN takes shell lines, lists and heredocs, as the stage's user and in its directory", () => {
  const all = steps(`FROM a
RUN a \\
  # comment
  && b
RUN ["x", "y z"]
RUN <<EOF
set -e
echo $A \\
  b
EOF
RUN cat <<'X' > /f
hi
X`) as RunAction[];
  expect(all.map(({ argv }) => argv)).toEqual([
    ["/bin/sh", "-c", "a   && b"],
    ["x", "y z"],
    ["/bin/sh", "-c", "set -e\necho $A \\\n  b\n"],
    ["/bin/sh", "-c", "cat <<'X' > /f\nhi\nX"],
  ]);
  expect(all[0]).toMatchObject({ user: "app", cwd: "/srv" });
});

test("COPY and ADD have sources, a target and an owner", () => {
  const all = steps(`FROM a AS one
FROM a
ENV D=data
COPY . .
COPY --chown=app:0 --chmod=0640 $D/* x y /in/
COPY --link ["a b", "rel/file"]
COPY --from=one /x /
ADD app.tar.gz /opt/
COPY <<one <<'two' /etc/
say "$D"
one
say "$D"
two`) as CopyAction[];
  expect(all.filter(({ kind }) => kind === "copy").map(({ sources, target }) => [sources, target])).toEqual([
    [["."], "/srv/"],
    [["data/*", "x", "y"], "/in/"],
    [["a b"], "/srv/rel/file"],
    [["/x"], "/"],
    [["app.tar.gz"], "/opt/"],
    [[], "/etc/"],
  ]);
  expect(all[2]).toMatchObject({ owner: "app:0", mode: 0o640, from: "context" });
  expect(all[4]).toMatchObject({ from: { stage: 0 } });
  expect(all[5]).toMatchObject({ unpacks: true });
  expect(all[6]?.inline).toEqual([
    { name: "one", content: 'say "data"\n' },
    { name: "two", content: 'say "$D"\n' },
  ]);
});

test.each([
  ["FROM a\nRUN x\nVOLUME []", "line 3: VOLUME needs directories"],
  ["FROM a\nHEALTHCHECK NONE", "line 2: HEALTHCHECK is not supported"],
  ["FROM a\nONBUILD RUN x", "line 2: ONBUILD is not supported"],
  ["FROM a\n\nRUN --mount=type=cache,target=/c x", "line 3: RUN --mount is not supported"],
  ["FROM a\nRUN --network=none x", "line 2: RUN --network is not supported"],
  ["FROM a\nADD https://example.com/a /a", "line 2: ADD of URLs and repositories is not supported"],
  ["FROM a\nCOPY --parents a /a", "line 2: COPY --parents is not supported"],
  ["FROM a\nCOPY --chmod=u+x a /a", "line 2: --chmod=u+x is not supported"],
  ["FROM a\nCOPY ../a /a", 'line 2: "../a" is outside of what can be copied'],
  ["FROM a\nCOPY a b /c", 'line 2: COPY of several sources needs a directory: "/c" must end in a slash'],
  ["FROM a\nCOPY --from=later /a /a\nFROM a AS later", "line 2: --from=later is not a stage above this one"],
  ["FROM a\nRUN <<E\n#!/bin/x\nE", "line 2: a heredoc that names its program with #! is not supported"],
  ["FROM a\nRUN <<E\nx", "line 2: the heredoc E has no end"],
  ['FROM a\nENV X="${Y:?is needed}"', 'line 2: cannot read ""${Y:?is needed}"": Y is not set: is needed'],
  ["FROM a\nEXPOSE 99999", 'line 2: "99999" is no port'],
  ["FROM a\nMOVE x", "line 2: there is no instruction MOVE"],
  ["FROM a\nRUN", "line 2: RUN needs an argument"],
  ["RUN x", "line 1: RUN stands before the first FROM"],
  ["FROM $NONE", 'line 1: "$NONE" is empty'],
  ["FROM a b", "line 1: FROM needs an image"],
  ["FROM a AS x\nFROM a AS X", 'line 2: there is a stage named "X" already'],
  ["# syntax=example/other:1\nFROM a", 'line 1: the syntax "example/other:1" is not supported'],
  ["# nothing", "it has no FROM"],
])("%j is refused before anything runs", (text, message) => {
  const last = text.includes("later") ? { target: "0" } : {};
  expect(() => plan(text, last)).toThrow(`Cannot build from the Dockerfile: ${message}`);
});

test("commands share their environment until ENV or ARG changes it, and it has only so many variables", () => {
  const runs = steps("FROM a\nRUN x\nRUN y\nENV A=1\nRUN z").filter((each) => each.kind === "run") as RunAction[];
  expect(runs[1]?.env).toBe(runs[0]?.env);
  expect(runs.map(({ env }) => env.A)).toEqual([undefined, undefined, "1"]);
  const many = Array.from({ length: 1001 }, (_, index) => `V${index}=1`).join(" ");
  for (const keyword of ["ENV", "ARG"]) {
    expect(() => plan(`FROM a\n${keyword} ${many}`)).toThrow("line 2: there are more than 1000 variables");
  }
});

test("a hostile text takes no long time", () => {
  for (const text of [
    `COPY ${"--a=b ".repeat(10_000)}`,
    `RUN <<A\n${"x\n".repeat(30_000)}A`,
    `RUN ${"a\\\n".repeat(20_000)}b`,
  ]) {
    expect(() => plan(`FROM a\n${text}\nONBUILD x`)).toThrow("Cannot build");
  }
  expect(() => plan(`FROM a\n${"#".repeat(70_000)}`)).toThrow("longer than 65536");
});
