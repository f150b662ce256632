/** Builds of templates on E2B's API: request one, send its files, start it, and read its status and log. */

import type { Hono } from "hono";
import { wantedImage } from "../../../core/images/images.ts";
import type { Owner } from "../../../core/model/sandbox.ts";
import { isTemplateId } from "../../../core/model/template.ts";
import { json, parsed } from "../../kit/http.ts";
import { Refusal } from "../../kit/refusal.ts";
import { bodyOf, type Dialect, type E2bContext, type Env, queryOf } from "../request.ts";
import { imageOfTemplate } from "../template-image.ts";
import { defaultTemplate } from "../wire.ts";
import { ownTeam } from "./own-team.ts";
import { type RecipeBase, recipeOf } from "./recipe.ts";
import { filesHash, type StartBody, type TemplateSchemas } from "./schemas.ts";
import { uploadUrl } from "./uploads.ts";
import * as wire from "./wire.ts";

/** the vendor's own image, which its clients name if a program names none */
const ownImages = /^(docker\.io\/)?e2bdev\/(base|code-interpreter)(:latest)?$/;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

export function buildRoutes(app: Hono<Env>, dialect: Dialect, schemas: TemplateSchemas): void {
  const { core } = dialect;
  const { emptyQuery } = dialect.schemas;

  for (const path of ["/v3/templates", "/v2/templates"]) {
    app.post(path, async (c) => {
      queryOf(c, emptyQuery);
      const { name, alias, tags, cpuCount, memoryMB, teamID } = await bodyOf(c, dialect, schemas.requestBody);
      const { slug } = await ownTeam(dialect, c.get("owner"), teamID);
      const { template, build } = await core.templates.request(c.get("owner"), {
        name: name ?? alias ?? "",
        tags: tags ?? [],
        vcpus: cpuCount ?? undefined,
        memory: memoryMB ?? undefined,
      });
      return json(wire.requested(template, build, slug), 202);
    });
  }

  app.get("/templates/:id/files/:hash", async (c) => {
    queryOf(c, emptyQuery);
    const hash = parsed(filesHash, c.req.param("hash"));
    const owner = c.get("owner");
    await core.templates.get(owner, c.req.param("id"));
    const present = await core.builds.hasUpload(owner, hash);
    return json({ present, url: uploadUrl(dialect, owner, hash) }, 201);
  });

  app.post("/v2/templates/:id/builds/:build", async (c) => {
    queryOf(c, emptyQuery);
    const body = await bodyOf(c, dialect, schemas.startBody);
    const owner = c.get("owner");
    const { id, build } = idsOf(c);
    await core.templates.build(owner, id, build);
    await core.templates.start(owner, id, build, recipeOf(await baseOf(dialect, owner, body), body));
    // Clients read a body unless its length says that there is none.
    return new Response(null, { status: 202, headers: { "content-length": "0" } });
  });

  app.get("/templates/:id/builds/:build/status", async (c) => {
    const { logsOffset: offset, limit, level } = queryOf(c, schemas.statusQuery);
    const { id, build: buildId } = idsOf(c);
    const query = { buildId, level, limit, offset, order: "asc" } as const;
    const { build, lines } = await core.templates.log(c.get("owner"), id, query);
    return json(wire.status(build, lines));
  });

  app.get("/templates/:id/builds/:build/logs", async (c) => {
    const { cursor, limit, direction, level } = queryOf(c, schemas.logsQuery);
    const { id, build: buildId } = idsOf(c);
    const order = direction === "forward" ? "asc" : "desc";
    const query = { buildId, level, limit, order, ...(cursor !== undefined && { from: cursor }) } as const;
    const { lines } = await core.templates.log(c.get("owner"), id, query);
    return json({ logs: lines.map(wire.logLine) });
  });
}

/** ids that no build has are not looked up */
function idsOf(c: E2bContext): { id: string; build: string } {
  const { id = "", build = "" } = c.req.param() as { id?: string; build?: string }; // the names in the route's path
  if (isTemplateId(id) && uuid.test(build)) return { id, build };
  throw new Refusal(404, `Build "${build.slice(0, 128)}" not found`);
}

async function baseOf({ core }: Dialect, owner: Owner, { fromImage, fromTemplate }: StartBody): Promise<RecipeBase> {
  const name = fromTemplate ?? fromImage ?? defaultTemplate;
  const template = fromTemplate ? await core.templates.use(owner, fromTemplate) : undefined;
  if (template) return { image: template.image, inherits: true };
  if (name === defaultTemplate || ownImages.test(name)) {
    return {
      image: { name: defaultTemplate, candidates: [defaultTemplate], otherwise: "the-default" },
      inherits: false,
    };
  }
  return { image: fromTemplate === undefined ? wantedImage(name) : imageOfTemplate(name), inherits: false };
}
