import type { FastifyReply, FastifyRequest } from "fastify";
import { AppError } from "../../protocol/errors.ts";
import { acceptedEncodings } from "../http/compression.ts";
import type { PageFile, PageFiles } from "../http/page-files.ts";
import type { Routes } from "../route-context.ts";

/** Loads from this origin only; no inline scripts or styles; no string becomes code or HTML. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' blob:",
  "connect-src 'self'",
  "worker-src 'self'",
  "font-src 'none'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  vary: "accept-encoding",
};

/** The names of built files contain a hash of their content, so a file with a given name never changes. */
const FOR_EVER = "public, max-age=31536000, immutable";

/**
 * The page at `/` and its files. They need no authentication, because they hold no user's data. The page reads its data
 * by the same routes as every client.
 */
export function pageRoutes(app: Routes, { page }: { page?: PageFiles | undefined }): void {
  const options = { exposeHeadRoute: true, config: { isOpen: true }, schema: { hide: true } } as const;
  const files = (path: string): PageFile => {
    const file = page?.get(path);
    if (!page) throw new AppError("not_found", "The page is not built. `npm run build:page` builds it.");
    if (!file) throw new AppError("not_found");
    return file;
  };
  app.get("/", options, (request, reply) => send(request, reply, files("index.html"), "no-cache"));
  app.get("/icon.svg", options, (request, reply) => send(request, reply, files("icon.svg"), "no-cache"));
  app.get("/assets/*", options, (request, reply) => {
    const { "*": name } = request.params as { "*": string };
    return send(request, reply, files(`assets/${name}`), FOR_EVER);
  });
}

function send(request: FastifyRequest, reply: FastifyReply, file: PageFile, cacheControl: string): FastifyReply {
  void reply.headers({ ...HEADERS, "cache-control": cacheControl, etag: file.etag });
  if (request.headers["if-none-match"] === file.etag) return reply.code(304).send();
  const accepted = acceptedEncodings(request);
  const encoding = (["br", "gzip"] as const).find((each) => accepted.has(each) && file.compressed[each]);
  void reply.type(file.type);
  if (!encoding) return reply.send(file.bytes);
  return reply.header("content-encoding", encoding).send(file.compressed[encoding]);
}
