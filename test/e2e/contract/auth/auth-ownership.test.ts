import { beforeAll, describe, expect, test } from "vitest";
import type { ZoneAnswer } from "../../../../src/protocol/zone-answer.ts";
import { type Caller, startGuarded } from "../../../support/clients/callers.ts";
import { accepted, refused } from "../../../support/clients/e2e-client.ts";
import {
  essence,
  floor,
  IMAGE,
  MESSAGES,
  NOTHING,
  NOTHING_THERE,
  OF_NOBODY,
  OF_OPERATORS,
  ROUTES,
  type Things,
} from "../../../support/clients/owned-resources.ts";

const { node, ann, bob, ops } = await startGuarded();

let things: Things;

beforeAll(async () => {
  const { session } = await accepted(
    ann.post("/session/create", { agentId: "music", userId: "ann", title: "whale songs", activate: true }),
  );
  const alone = (await accepted(ann.post("/session/create", { agentId: "chat", title: "whale talk" }))).session;
  const said = { type: "chat", sessionId: session.id, content: "hello leviathan", images: [IMAGE] };
  const { messageId } = await accepted(ann.post("/message", said));
  const { messages } = await accepted(ann.get(`/session/${session.id}/messages`));
  const { runId } = await accepted(ann.post("/message", { type: "chat", sessionId: alone.id, content: "play" }));
  const stream = await ann.stream(`/events?userId=ann&sessionId=${session.id}`);

  const connected = await stream.next();
  await stream.find("agent_list");
  const log = await ann.stream(`/session/${session.id}/events`);
  await log.find("complete");
  await log.close();
  const image = messages.find(({ id }) => id === messageId)!.images![0]!.hash;
  things = {
    session: session.id,
    alone: alone.id,
    message: messageId,
    run: runId,
    image,
    floor: session.floorId,
    connection: String(connected.data["connectionId"]),
    position: `${stream.lastEventId}0_1`,
  };
});

test("every route of the node is tested", async () => {
  const { paths } = JSON.parse((await node.send("GET", "/openapi.json")).text) as { paths: Record<string, object> };
  const all = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect([...new Set([...ROUTES.map(([route]) => route), ...OF_NOBODY, ...OF_OPERATORS])].toSorted()).toEqual(
    all.toSorted(),
  );
});

describe("a resource of another owner", () => {
  let before: string;
  beforeAll(async () => {
    before = (await ann.get(`/session/${things.session}`)).text;
  });

  test.each(ROUTES)("a resource of another owner does not exist: %s", async (_, ask) => {
    const answer = await ask(bob, things);
    expect(essence(answer, things)).toEqual(essence(await ask(bob, NOTHING), NOTHING));
    expect(answer.status === 404 || NOTHING_THERE.test(answer.text)).toBe(true);
  });

  test.each(MESSAGES)("a resource of another owner does not exist for the message %s", async (type, fields) => {
    const say = (of: object) => bob.post("/message", { type, ...of, ...fields });
    const alike = async (name: "session" | "connection", code: string) => {
      const answer = await say({ [`${name}Id`]: things[name] });
      expect(essence(answer, things)).toEqual(essence(await say({ [`${name}Id`]: NOTHING[name] }), NOTHING));
      expect(answer.text).toContain(code);
    };
    await alike("session", "session_not_found");
    await alike("connection", "connection_not_found");
  });

  test("another owner's resource is in no list and no search", async () => {
    for (const query of ["", "?q=whale", "?q=leviathan", `?q=${things.session}`, "?userId=ann", "?state=active"]) {
      const { sessions, total, hasMore } = await accepted(bob.get(`/session/list${query}`));
      expect({ sessions, total, hasMore }, query).toEqual({ sessions: [], total: 0, hasMore: false });
    }
    expect((await accepted(ann.get("/session/list?q=leviathan"))).total).toBe(1);
    expect((await accepted(ops.get("/session/list?q=whale"))).total).toBe(2);
  });

  test("another owner's runs are in no list", async () => {
    for (const query of ["", "?state=failed", "?userId=ann", "?agentId=chat"])
      expect((await accepted(bob.get(`/runs${query}`))).runs, query).toEqual([]);
    for (const caller of [ann, ops]) {
      const { runs } = await accepted(caller.get("/runs"));
      expect(runs).toMatchObject([{ id: things.run, sessionId: things.alone, ownerId: "ann" }]);
    }
  });

  test("another owner's session is not bound to a stream, which reports it like a missing one", async () => {
    const errors: unknown[] = [];
    for (const { session } of [things, NOTHING]) {
      const stream = await bob.stream(`/events?sessionId=${session}`);
      errors.push((await stream.find("error")).data);
      await stream.close();
    }
    expect(errors[0]).toEqual(errors[1]);
    expect(errors[0]).toMatchObject({ errorCode: "session_not_found" });
  });

  test("a position does not reach another owner's connection: the connection counts as unknown", async () => {
    for (const position of [things.position, things.position.replace(things.connection, "unknown")]) {
      const stream = await bob.stream("/events", { "Last-Event-ID": position });
      const connected = await stream.next();
      expect(connected.data["connectionId"]).not.toBe(things.connection);
      await stream.find("agent_list");
      expect((await stream.next()).type).toBe("reset");
      await stream.close();
    }
  });

  test("a caller cannot take over a resource of another owner by its key", async () => {
    const create = async (caller: Caller) =>
      (await accepted(caller.post("/session/create", { agentId: "chat" }, { key: "the-same-key" }))).session;
    const [hers, his] = [await create(ann), await create(bob)];
    expect([his.id === hers.id, his.ownerId]).toEqual([false, "bob"]);
    expect((await create(ann)).id).toBe(hers.id);
  });

  test("another owner's resource is unchanged after all attempts", async () => {
    expect((await ann.get(`/session/${things.session}`)).text).toBe(before);
  });
});

test("a user may not act for another user: forbidden, and nothing is created", async () => {
  const before = await accepted(ops.get("/session/list?includeArchived=true"));
  const why = "You act for yourself: leave the user out, or name yourself. Only an operator acts for other users.";
  for (const answer of [
    bob.post("/session/create", { userId: "ann", agentId: "chat" }),
    bob.post("/session/create", { userId: "ann", zone: "rear", agentId: "chat", activate: true }),
    bob.post("/session/create", { userId: "ann", zone: "*", agentId: "chat" }),
    bob.post("/message", { type: "chat", content: "hello", userId: "ann" }),
    bob.get("/events?userId=ann"),
  ]) {
    expect(await refused(answer)).toMatchObject({ errorCode: "forbidden", error: why });
  }
  expect((await accepted(ops.get("/session/list?includeArchived=true"))).total).toBe(before.total);
});

test("a user has a floor in each zone, and sees them all", async () => {
  for (const zone of ["driver", "rear left"]) {
    await accepted(bob.post(`${floor(`u:bob/${encodeURIComponent(zone)}`)}/stop-all`));
    const fields = { userId: "bob", zone, agentId: "chat", activate: true };
    const { session } = await accepted(bob.post("/session/create", fields));
    expect(session).toMatchObject({ ownerId: "bob", userId: "bob", zone });
    expect((await accepted(bob.get(floor(session.floorId)))).holder?.id).toBe(session.id);
    expect((await refused(ann.get(floor(session.floorId)))).errorCode).toBe("not_found");
  }
});

test("a user may not set flags, even on its own floor", async () => {
  const why = { errorCode: "forbidden", error: "Only operators may set flags." };
  for (const method of ["PUT", "PATCH"]) {
    expect(await refused(bob.ask(method, `${floor("u:bob")}/flags`, { emergency: true }))).toMatchObject(why);
  }
  expect((await accepted(bob.get(floor("u:bob")))).flags).toEqual({});
});

test("a user is forgotten by operators only, and exported by operators and by itself", async () => {
  const forbidden = { errorCode: "forbidden" };
  for (const user of ["ann", "bob"]) {
    expect(await refused(bob.ask("DELETE", `/user/${user}`))).toMatchObject(forbidden);
  }
  expect(await refused(bob.get("/user/ann/export"))).toMatchObject(forbidden);
  const own = await bob.get("/user/bob/export");
  expect(own.status).toBe(200);
  expect(own.text).not.toContain("leviathan");
});

/** Call a route with a body that is right for none. */
async function statusOf(caller: Caller, route: string): Promise<number> {
  const [method = "", path = ""] = route.split(" ");
  const type = path === "/catalogue/diff" ? "application/yaml" : "application/json";
  const body = method !== "GET" && { raw: '{"misspelt": 1}', headers: { "Content-Type": type } };
  return (await caller.ask(method, path.replace(/\{\w+\}/, "nobody"), undefined, body || {})).status;
}

test.each(OF_OPERATORS)("only operators may %s", async (route) => {
  expect(await statusOf(bob, route)).toBe(403);
  expect(await statusOf(ops, route)).not.toBe(403);
});

test("an operator sees every owner's resources, on every route that reads", async () => {
  for (const path of [
    `/session/${things.session}`,
    `/session/${things.session}/messages`,
    `/session/${things.session}/messages/${things.message}/logs`,
    `/session/${things.session}/images/${things.image}`,
    floor(things.floor),
    `${floor(things.floor)}/log`,
    floor(`s:${things.alone}`),
    floor("u:nobody"),
    "/metrics",
    "/nodes",
    "/catalogue/matrix",
  ]) {
    expect((await ops.get(path)).status, path).toBe(200);
  }
  for (const path of [`/session/${things.session}/events`, `${floor(things.floor)}/events`]) {
    const stream = await ops.stream(path);
    expect((await stream.next()).type).toBe("session_created");
    await stream.close();
  }
  const stream = await ops.stream(`/events?sessionId=${things.session}`);
  await stream.find("agent_list");
  const list = await stream.find("agent_list");
  expect(list.data["currentAgentId"]).toBe("music");
  await stream.close();
});

test("a session that an operator creates for a user belongs to the user", async () => {
  const stream = await ann.stream(`${floor("u:ann")}/events`);
  const { session } = await accepted(
    ops.post("/session/create", { agentId: "phone", userId: "ann", activate: true, title: "from the centre" }),
  );
  expect(session).toMatchObject({ ownerId: "ann", userId: "ann", state: "active" });
  await stream.findState(session.id, "active.idle");
  expect((await accepted(ann.get(floor("u:ann")))).holder?.id).toBe(session.id);
  expect((await accepted(ann.post(`/session/${session.id}/archive`))).session.state).toBe("archived");
  const quick = await accepted(ops.post("/message", { type: "chat", content: "nod", userId: "ann" }));
  expect((await accepted(ann.get(`/session/${quick.sessionId}`))).session.ownerId).toBe("ann");
  await accepted(ann.post(`/session/${quick.sessionId}/stop`));
});

test("an operator has sessions of its own if it names no user", async () => {
  const { session } = await accepted(ops.post("/session/create", { agentId: "chat" }));
  expect(session.ownerId).toBe("ops");
  expect((await refused(ann.get(`/session/${session.id}`))).errorCode).toBe("session_not_found");
});

test("an operator changes every owner's resources, and sets flags", async () => {
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
  const renamed = await accepted(ops.ask("PATCH", `/session/${session.id}`, { title: "seen" }));
  expect(renamed.session).toMatchObject({ title: "seen", ownerId: "ann" });
  const { flags } = await accepted(ops.ask("PUT", `${floor("u:ann")}/flags`, { emergency: true }));
  expect(flags).toEqual({ emergency: true });
  await accepted(ops.ask("PUT", `${floor("u:ann")}/flags`, {}));
});

test("an operator cannot use another client's connection", async () => {
  const fields = { agentId: "chat", connectionId: things.connection };
  expect((await refused(ops.post("/session/create", fields))).errorCode).toBe("connection_not_found");
});

test("an owner can use its own session by every route", async () => {
  const ending = /(events|stream)$|DELETE|flags|archive|stop|create|pause|resume|rollback|move|resend|edit/;
  // A scripted agent has neither.
  const lacking = /summarize|compress|mode$|schedule/;
  const own = ROUTES.filter(([route]) => !ending.test(route) && !lacking.test(route));
  for (const [route, ask] of own) expect((await ask(ann, things)).status, route).toBe(200);
  for (const path of [`/session/${things.session}/events`, `${floor(things.floor)}/events`]) {
    expect((await (await ann.stream(path)).next()).type).toBe("session_created");
  }
});

test("an operator cancels a run of another owner, and no other owner does", async () => {
  const { session } = await accepted(ann.post("/session/create", { agentId: "chat" }));
  const said = { type: "chat", sessionId: session.id, content: "play" };
  const { runId } = await accepted(ann.post("/message", said));
  expect((await refused(bob.post(`/runs/${runId}/cancel`))).errorCode).toBe("not_found");
  expect((await accepted(ann.get("/runs"))).runs).toMatchObject([{ id: runId }]);
  expect(await accepted(ops.post(`/runs/${runId}/cancel`))).toMatchObject({ sessionId: session.id });
  expect((await accepted(ann.get("/runs"))).runs).toEqual([]);
});

test("the sessions of a request for all zones are stopped by their user alone, and no other joins their group", async () => {
  const callers = { ann, bob };
  for (const zone of ["attic", "cellar"]) {
    for (const [userId, caller] of Object.entries(callers))
      await accepted(caller.post("/session/create", { userId, zone, agentId: "chat" }));
  }
  const announce = async (userId: keyof typeof callers) => {
    const wanted = { userId, zone: "*", agentId: "music" };
    const body = await accepted(callers[userId].post("/session/create", wanted, { key: "one-key" }));
    const { zones } = body as unknown as { zones: ZoneAnswer[] };
    return { session: body.session, ids: zones.flatMap(({ sessionId }) => sessionId ?? []) };
  };
  const hers = await announce("ann");
  expect(hers.ids.length).toBeGreaterThan(1);
  const states = () =>
    Promise.all(hers.ids.map(async (id) => (await accepted(ann.get(`/session/${id}`))).session.state));
  const before = await states();
  for (const id of hers.ids) {
    expect((await refused(bob.post(`/session/${id}/stop`, { group: true }))).errorCode).toBe("session_not_found");
  }
  // His request with the key of hers is another one, with a group of its own.
  const his = await announce("bob");
  expect(his.session.group!.id).not.toBe(hers.session.group!.id);
  expect(his.ids.filter((id) => hers.ids.includes(id))).toEqual([]);
  const forged = { agentId: "chat", group: hers.session.group };
  expect((await refused(bob.post("/session/create", forged))).errorCode).toBe("bad_request");
  await accepted(bob.post(`/session/${his.session.id}/stop`, { group: true }));
  expect(await states()).toEqual(before);
  await accepted(ann.post(`/session/${hers.ids[0]}/stop`, { group: true }));
  expect(new Set(await states())).toEqual(new Set(["archived"]));
});
