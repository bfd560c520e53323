import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

const compress = promisify(gzip);

/** Smaller answers gain nothing from compression. */
const MIN_BYTES = 1_024;

/** The encodings that a request accepts by name. `q=0` excludes an encoding. */
export function acceptedEncodings({ headers }: Pick<FastifyRequest, "headers">): Set<string> {
  const header = headers["accept-encoding"];
  const ranges = typeof header === "string" ? header.toLowerCase().split(",") : [];
  const accepted = ranges.filter((range) => !/;\s*q=0(?:\.0*)?\s*$/.test(range));
  return new Set(accepted.map((range) => range.split(";", 1)[0]!.trim()));
}

/** Send JSON that may be large. Compress it off the main thread if the client accepts that. */
export async function sendLargeJson(request: FastifyRequest, reply: FastifyReply, json: string): Promise<FastifyReply> {
  void reply.header("vary", "accept-encoding").type("application/json; charset=utf-8");
  const isWorthIt = json.length >= MIN_BYTES && acceptedEncodings(request).has("gzip");
  if (!isWorthIt) return reply.send(json);
  const bytes = await compress(json);
  return reply.header("content-encoding", "gzip").send(bytes);
}
