/** Teams and their projects, and what the caller's key is. */

import { z } from "zod";
import type { Project, Team } from "../../../core/model/sandbox.ts";
import { answers, answersNothing, flag, operation } from "../frame/operation.ts";
import { next } from "../frame/paging.ts";
import { printShortList, shortListQuery } from "../frame/short-list.ts";
import { time } from "../resources/values.ts";
import type { Dialect } from "../sandkeep.ts";

const tag = "Teams and keys";

const slugRule =
  "the name of a team has up to 48 lowercase letters and digits, with single dashes between them where you like.";

const teamResource = z.object({ id: z.string(), slug: z.string(), createdAt: time }).meta({ id: "Team" });
const projectResource = z
  .object({ id: z.string(), name: z.string(), teamId: z.string(), createdAt: time })
  .meta({ id: "Project" });

export function teamOperations({ core }: Dialect) {
  return [
    operation({
      id: "getCaller",
      method: "GET",
      path: "/caller",
      tag,
      summary: "Describes the caller: its team and project, which must exist if named, and what its key may do",
      about: "project",
      answer: answers(
        "The caller",
        z.object({
          teamId: z.string(),
          team: z.string().meta({ description: "The team's slug" }),
          projectId: z.string(),
          project: z.string().meta({ description: "The project's name" }),
          key: z
            .object({ id: z.string(), name: z.string() })
            .nullable()
            .meta({ description: "The caller's key, which may be an admin key of another team" }),
          readOnly: z.boolean(),
          admin: z.boolean(),
        }),
      ),
      async run({ owner }) {
        const { teamId, projectId, scope, admin = false } = owner;
        const key = core.access.keyOf(owner) ?? null;
        const { slug: team } = await core.access.team(owner);
        const { name: project } = await core.access.project(owner, undefined, projectId);
        return { teamId, team, projectId, project, key, readOnly: scope?.readOnly ?? false, admin };
      },
    }),
    operation({
      id: "listTeams",
      method: "GET",
      path: "/teams",
      tag,
      summary: "Lists the teams that the caller may act for: its own, or with an admin key all",
      about: "host",
      query: shortListQuery,
      answer: answers("A page of teams, oldest first", z.object({ teams: z.array(teamResource), next })),
      run: async ({ caller, query }) =>
        printShortList("teams", await core.access.visibleTeams(caller), query, printTeam),
    }),
    operation({
      id: "createTeam",
      method: "POST",
      path: "/teams",
      tag,
      summary: "Creates a team with a first project; needs an admin key",
      about: "host",
      body: z.strictObject({ slug: z.string().regex(/^[a-z0-9](-?[a-z0-9]){0,47}$/, slugRule) }),
      answer: answers("The team", teamResource, 201),
      run: async ({ caller, body: { slug } }) => printTeam(await core.access.createTeam(caller, slug)),
    }),
    operation({
      id: "deleteTeam",
      method: "DELETE",
      path: "/teams/{team}",
      tag,
      summary: "Deletes a team with its projects and keys; needs an admin key of another team",
      description:
        "A team that has sandboxes, snapshots, drives, templates or images is refused with 409, unless you send " +
        "`force=true`: then they are deleted, too. The audit keeps its entries.",
      about: "host",
      params: { team: z.string().min(1).max(128).meta({ description: "Id or slug" }) },
      query: { force: flag().default(false).meta({ description: "Whether to delete everything that it has" }) },
      answer: answersNothing("It is gone"),
      async run({ caller, params: { team }, query: { force } }) {
        await core.teams.delete(caller, team, { force });
        return undefined;
      },
    }),
    operation({
      id: "listProjects",
      method: "GET",
      path: "/projects",
      tag,
      summary: "Lists the projects of the team that the key may use",
      about: "team",
      query: shortListQuery,
      answer: answers("A page of projects, oldest first", z.object({ projects: z.array(projectResource), next })),
      run: async ({ caller, query }) =>
        printShortList("projects", await core.access.projects(caller), query, printProject),
    }),
    operation({
      id: "createProject",
      method: "POST",
      path: "/projects",
      tag,
      summary: "Creates a project",
      about: "team",
      body: z.strictObject({
        name: z
          .string()
          .min(1)
          .max(100)
          .regex(/^[^\s/]+$/, "the name of a project has no blanks and no slashes."),
      }),
      answer: answers("The project", projectResource, 201),
      run: async ({ caller, body: { name } }) => printProject(await core.access.createProject(caller, undefined, name)),
    }),
    operation({
      id: "getProject",
      method: "GET",
      path: "/projects/{project}",
      tag,
      summary: "Returns a project by its id or its name",
      about: "team",
      params: { project: z.string().min(1).max(128) },
      answer: answers("The project", projectResource),
      run: async ({ caller, params: { project } }) =>
        printProject(await core.access.project(caller, undefined, project)),
    }),
  ];
}

function printTeam({ id, slug, createdAt }: Team): z.input<typeof teamResource> {
  return { id, slug, createdAt };
}

function printProject({ id, name, teamId, createdAt }: Project): z.input<typeof projectResource> {
  return { id, name, teamId, createdAt };
}
