// Apart from the schemas, so that the thread that writes to SQLite starts without their library.
import type { Session } from "./session.ts";

const JSON_OF = new WeakMap<Session, string>();

/** A session as JSON. Its row, receipt and reply share one immutable object, so it is serialised once. */
export function sessionJson(session: Session): string {
  let json = JSON_OF.get(session);
  if (json === undefined) {
    json = JSON.stringify(session);
    JSON_OF.set(session, json);
  }
  return json;
}

/** A reply as JSON; the JSON of its session is reused. */
export function answerJson(answer: object): string {
  const { session, ...rest } = answer as { session?: Session };
  const json = JSON.stringify(rest);
  if (session === undefined) return json;
  return `${json === "{}" ? "{" : `${json.slice(0, -1)},`}"session":${sessionJson(session)}}`;
}
