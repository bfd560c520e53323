import type { FastifyRequest } from "fastify";

/** Whether the head announces a body. */
export function hasBody({ headers }: FastifyRequest): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** Whether a request has several headers of this name, of which Node.js keeps the first. @param name lower case */
export function isRepeated({ raw: { rawHeaders } }: FastifyRequest, name: string): boolean {
  let count = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    if (rawHeaders[index]!.length === name.length && rawHeaders[index]!.toLowerCase() === name) count += 1;
  }
  return count > 1;
}
