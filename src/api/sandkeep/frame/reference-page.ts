/** The OpenAPI document as a page for people. It has no script, and loads nothing. */

import { createHash } from "node:crypto";
import type { JsonSchema, OpenApi, OpenApiOperation, OpenApiParameter } from "./openapi.ts";

export function referencePage(document: OpenApi): Response {
  const style = `style-src 'sha256-${createHash("sha256").update(css).digest("base64")}'`;
  return new Response(pageOf(document), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy": `default-src 'none'; ${style}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    },
  });
}

interface Listed {
  method: string;
  path: string;
  operation: OpenApiOperation;
}

function pageOf({ info, tags, paths, components }: OpenApi): string {
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]): Listed => ({ method: method.toUpperCase(), path, operation })),
  );
  const parts = tags.map(({ name }) => ({
    name,
    listed: all.filter(({ operation }) => operation.tags.includes(name)),
  }));
  const contents = parts.map(({ name }) => `<a href="#${slug(name)}">${escaped(name)}</a>`);
  const sections = parts.map(
    ({ name, listed }) => `<h2 id="${slug(name)}">${escaped(name)}</h2>\n${listed.map(articleOf).join("\n")}`,
  );
  const schemas = Object.entries(components.schemas).map(([name, schema]) => {
    return `<article id="schema-${slug(name)}"><h3>${escaped(name)}</h3>${schemaText(schema)}</article>`;
  });
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escaped(info.title)} API</title>
<style>${css}</style>
<header>
<h1>${escaped(info.title)} API <small>${escaped(info.version)}</small></h1>
${paragraphs(info.description)}
<p>For programs: <a href="openapi.json">openapi.json</a></p>
</header>
<nav aria-label="Parts">${contents.join("\n")}<a href="#schemas">Schemas</a></nav>
<main>
${sections.join("\n")}
<h2 id="schemas">Schemas</h2>
${schemas.join("\n")}
</main>
</html>
`;
}

function articleOf({ method, path, operation }: Listed): string {
  const { operationId, summary, description, parameters, requestBody, responses } = operation;
  const answers = Object.entries(responses).filter(([status]) => status.startsWith("2"));
  return `<article id="${slug(operationId)}">
<h3><code><b>${method}</b> ${escaped(path)}</code></h3>
<p>${escaped(summary)}.</p>
${description === undefined ? "" : paragraphs(description)}
${parameters.length === 0 ? "" : tableOf(parameters)}
${Object.entries(requestBody?.content ?? {}).map(([type, { schema }]) => detailsOf(`Body: ${type}`, schema))}
${answers
  .map(([status, answer]) => {
    const contents = Object.entries(answer.content ?? {});
    const details = contents.map(([type, { schema = {} }]) => detailsOf(type, schema));
    return `<p>${status}: ${escaped(answer.description)}</p>${details.join("")}`;
  })
  .join("\n")}
</article>`;
}

function tableOf(parameters: OpenApiParameter[]): string {
  const rows = parameters.map(({ name, in: where, required, description = "", schema }) => {
    const type = `${required ? "required " : ""}${where}`;
    return `<tr><td><code>${escaped(name)}</code><td>${type}<td><code>${escaped(JSON.stringify(schema))}</code><td>${inline(description)}`;
  });
  return `<table><thead><tr><th>parameter<th>where<th>schema<th>meaning</thead>${rows.join("\n")}</table>`;
}

function detailsOf(title: string, schema: JsonSchema): string {
  return `<details><summary>${escaped(title)}</summary>${schemaText(schema)}</details>`;
}

/** the schema as JSON, with links to the schemas that it refers to */
function schemaText(schema: JsonSchema): string {
  const text = escaped(JSON.stringify(schema, undefined, 2));
  return `<pre>${text.replaceAll(/#\/components\/schemas\/(\w+)/g, (reference, name: string) => {
    return `<a href="#schema-${slug(name)}">${reference}</a>`;
  })}</pre>`;
}

function paragraphs(text: string): string {
  return text
    .split("\n\n")
    .map((paragraph) => `<p>${inline(paragraph)}</p>`)
    .join("\n");
}

/** text in which backticks mark code */
function inline(text: string): string {
  return escaped(text).replaceAll(/`([^`]+)`/g, "<code>$1</code>");
}

function slug(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9]+/g, "-");
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}

const css = `
:root { color-scheme: light dark; --line: light-dark(#dcd8cf, #35322d); --ink2: light-dark(#55524c, #b0aba1); --accent: light-dark(#9a4f0d, #e8a45c); }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 0 auto; padding: 1rem; background: light-dark(#f7f6f3, #131211); color: light-dark(#1d1c1a, #edeae4); }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1rem; border-block: 1px solid var(--line); padding: .5rem 0; }
a { color: var(--accent); } small, th { color: var(--ink2); font-weight: normal; }
article { border-bottom: 1px solid var(--line); padding: .5rem 0; }
code, pre { font: 12px/1.5 ui-monospace, monospace; } h3 { margin: .25rem 0; }
pre { overflow-x: auto; max-height: 40rem; } table { border-collapse: collapse; display: block; overflow-x: auto; }
td, th { text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0; } summary { cursor: pointer; color: var(--ink2); }
`;
