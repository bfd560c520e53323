import type { FastifyInstance } from "fastify";

/** What browsers are told to do with answers, which are data and nothing else. In lower case, as replies keep them. */
const HEADERS = {
  // Nothing in them runs, loads or is shown inside another page.
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  // Pages of other origins read them where CORS lets them, and embed them nowhere.
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  // An address may hold a ticket.
  "referrer-policy": "no-referrer",
  // Once asked over TLS, which is a proxy's, never again without. Browsers ignore it on plain HTTP.
  "strict-transport-security": "max-age=31536000",
};

/** Where others can reach the node. */
export function guardAnswers(app: FastifyInstance): void {
  app.addHook("onRequest", (_request, reply, done) => {
    void reply.headers(HEADERS);
    done();
  });
}
