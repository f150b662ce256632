/**
 * The routes that Vercel's command line needs for its user, team, projects and login. The login is OAuth's device flow:
 * the command line shows a code, and a person with a key approves it on a page of this daemon.
 */

import type { Hono } from "hono";
import { isSandkeepError } from "../../../core/model/errors.ts";
import type { Project, Team } from "../../../core/model/sandbox.ts";
import { addressOf, form, json } from "../../kit/http.ts";
import { notFound, sentenceOf } from "../errors.ts";
import { bodyOf, callerOf, type Dialect, type Env, queryOf } from "../request.ts";
import { approvalPage, approvalPath } from "./approval-page.ts";

/** routes for callers with a token */
export function accountRoutes(app: Hono<Env>, dialect: Dialect): void {
  const { core, schemas } = dialect;

  app.get("/v2/user", async (c) => {
    const { id, slug } = await core.access.team(c.get("caller"));
    return json({ user: { id: `usr_${slug}`, username: slug, email: `${slug}@localhost`, defaultTeamId: id } });
  });

  app.get("/v2/teams", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.teamsQuery).value);
    const teams = await core.access.teams(caller);
    return json({ teams: teams.map(teamJson), pagination: { count: teams.length, next: null, prev: null } });
  });

  app.get("/v2/teams/:team", async (c) => {
    const team = c.req.param("team");
    if (!idOrName.test(team)) throw notFound("Team not found.");
    return json(teamJson(await core.access.team(c.get("caller"), team)));
  });

  app.get("/:version{v(2|9)}/projects/:project", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const project = c.req.param("project");
    if (!idOrName.test(project)) throw notFound("Project not found.");
    return json(projectJson(await core.access.project(caller, undefined, project)));
  });

  app.post("/:version{v(9|10|11)}/projects", async (c) => {
    const caller = await callerOf(c, dialect, queryOf(c, schemas.scopeQuery).value);
    const { value } = await bodyOf(c, dialect, schemas.projectBody);
    return json(projectJson(await core.access.createProject(caller, undefined, value.name)));
  });
}

/** routes without authentication, which give out tokens */
export function loginRoutes(app: Hono<Env>, { core, publicUrl }: Dialect): void {
  const { logins } = core.access;

  app.get("/.well-known/openid-configuration", () => {
    const base = publicUrl();
    return json({
      issuer: base,
      authorization_endpoint: `${base}${approvalPath}`,
      device_authorization_endpoint: `${base}${oauth}/device-authorization`,
      token_endpoint: `${base}${oauth}/token`,
      revocation_endpoint: `${base}${oauth}/token/revoke`,
      introspection_endpoint: `${base}${oauth}/token/introspect`,
      jwks_uri: `${base}/.well-known/jwks`,
      response_types_supported: ["code"],
      subject_types_supported: ["public"],
      id_token_signing_alg_values_supported: ["RS256"],
      grant_types_supported: [deviceGrant, refreshGrant],
    });
  });

  app.post(`${oauth}/device-authorization`, (c) => {
    const { deviceCode, userCode, expiresIn, interval } = logins.begin(addressOf(c.req.raw));
    const page = `${publicUrl()}${approvalPath}`;
    return json({
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: page,
      verification_uri_complete: `${page}?user_code=${encodeURIComponent(userCode)}`,
      expires_in: expiresIn,
      interval,
    });
  });

  app.post(`${oauth}/token`, async (c) => {
    const fields = await form(c, longestForm);
    if (fields.grant_type === deviceGrant) {
      const answer = logins.poll(fields.device_code ?? "");
      return typeof answer === "string" ? json({ error: refusals[answer] }, 400) : json(tokenJson(answer.key));
    }
    if (fields.grant_type !== refreshGrant) return json({ error: "unsupported_grant_type" }, 400);
    const key = fields.refresh_token ?? "";
    return (await isKey(key, c.req.raw)) ? json(tokenJson(key)) : json({ error: "invalid_grant" }, 400);
  });

  // The token is a key that its owner may use elsewhere, so it stays valid. The command line deletes its copy.
  app.post(`${oauth}/token/revoke`, () => json({}));

  app.post(`${oauth}/token/introspect`, async (c) => {
    const { token = "" } = await form(c, longestForm);
    return json({ active: await isKey(token, c.req.raw) });
  });

  app.get(approvalPath, (c) => approvalPage({ userCode: c.req.query("user_code") ?? "" }));

  app.post(approvalPath, async (c) => {
    if (!isSameOrigin(c.req.header("origin"), c.req.header("host"))) {
      return approvalPage({ message: "This form was sent by another page.", status: 403 });
    }
    const { user_code: userCode = "", key = "", answer } = await form(c, longestForm);
    try {
      await core.access.authenticate(key, addressOf(c.req.raw));
      if (answer === "deny") logins.deny(userCode);
      else logins.approve(userCode, key);
      return approvalPage({
        message: answer === "deny" ? "Denied." : "Approved. You can close this page.",
        done: true,
      });
    } catch (error) {
      if (!isSandkeepError(error) || error.code === "internal") throw error;
      return approvalPage({ userCode, message: sentenceOf(error), status: 400 });
    }
  });

  async function isKey(key: string, request: Request): Promise<boolean> {
    try {
      await core.access.authenticate(key, addressOf(request));
      return true;
    } catch (error) {
      if (isSandkeepError(error, "unauthenticated")) return false;
      throw error;
    }
  }
}

const idOrName = /^[\w.-]{1,255}$/;
const oauth = "/api/login/oauth";
const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";
const refreshGrant = "refresh_token";
const longestForm = 16 << 10;
/** a year, in seconds; keys do not expire, so a refresh returns the same key again */
const tokenLife = 365 * 86_400;

const refusals = {
  pending: "authorization_pending",
  "slow-down": "slow_down",
  denied: "access_denied",
  expired: "expired_token",
};

function tokenJson(key: string): object {
  return {
    access_token: key,
    token_type: "Bearer",
    expires_in: tokenLife,
    refresh_token: key,
    scope: "openid offline_access",
  };
}

function teamJson({ id, slug, createdAt }: Team): object {
  return {
    id,
    slug,
    name: slug,
    createdAt,
    updatedAt: createdAt,
    membership: { role: "OWNER" },
    billing: { plan: "hobby" },
  };
}

function projectJson({ id, name, teamId, createdAt }: Project): object {
  return { id, name, accountId: teamId, createdAt, updatedAt: createdAt };
}

function isSameOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return true;
  return URL.canParse(origin) && new URL(origin).host === host;
}
