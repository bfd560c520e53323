import { afterAll, describe, expect, test } from "vitest";
import { accepted, E2eClient, refused } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start();
afterAll(() => node.stop());

/** The list of a user's sessions. */
async function list(ann: E2eClient, query = "") {
  const answer = await accepted(node.get(`/session/list?userId=${ann.userId}${query}`));
  return { ...answer, ids: answer.sessions.map(({ id }) => id) };
}

const find = async (ann: E2eClient, q: string) => (await list(ann, `&q=${encodeURIComponent(q)}`)).ids;

describe("the list of sessions", () => {
  test("sessions are listed in pages, the newest activity first", async () => {
    const ann = new E2eClient(node);
    const [one, two, three] = [await ann.create("music"), await ann.create("chat"), await ann.create("weather")];
    const all = await list(ann);
    expect(all).toMatchObject({ page: 0, pageSize: 20, total: 3, hasMore: false });
    expect(new Set(all.ids)).toEqual(new Set([one.id, two.id, three.id]));
    await ann.talk(one.id, "hello");
    expect((await list(ann)).ids[0]).toBe(one.id);
    const pages = [await list(ann, "&pageSize=2"), await list(ann, "&pageSize=2&page=1"), await list(ann, "&page=9")];
    expect(pages.map(({ hasMore, total }) => [hasMore, total])).toEqual([true, false, false].map((more) => [more, 3]));
    expect([...pages[0]!.ids, ...pages[1]!.ids]).toEqual((await list(ann)).ids);
    expect(pages[2]!.ids).toEqual([]);
    expect((await list(ann, "&pageSize=3")).hasMore).toBe(false);
  });

  test("the list shows each session with the same fields as when it is read alone", async () => {
    const ann = new E2eClient(node);
    const session = await ann.hold("music", { workspaceId: "w", title: "Songs" });
    expect((await list(ann)).sessions).toEqual([session]);
  });

  test("the list is filtered by state, agent, workspace and user", async () => {
    const ann = new E2eClient(node);
    const music = await ann.hold("music", { workspaceId: "car" });
    const phone = await ann.hold("phone", { workspaceId: "car" });
    const chat = await ann.create("chat");
    expect((await list(ann, "&state=active")).ids).toEqual([phone.id]);
    expect((await list(ann, "&state=paused")).ids).toEqual([music.id]);
    expect((await list(ann, "&state=created")).ids).toEqual([chat.id]);
    expect((await list(ann, "&agentId=chat")).ids).toEqual([chat.id]);
    expect((await list(ann, "&workspaceId=car&agentId=phone")).ids).toEqual([phone.id]);
    expect((await list(ann, "&workspaceId=home")).ids).toEqual([]);
    expect((await list(new E2eClient(node))).ids).toEqual([]);
  });

  test("the list leaves out archived sessions unless they are requested", async () => {
    const ann = new E2eClient(node);
    const old = await ann.create("music");
    const young = await ann.create("music");
    await accepted(ann.on(old.id, "archive"));
    expect((await list(ann)).ids).toEqual([young.id]);
    expect((await list(ann, "&includeArchived=false")).ids).toEqual([young.id]);
    expect(new Set((await list(ann, "&includeArchived=true")).ids)).toEqual(new Set([old.id, young.id]));
    expect((await list(ann, "&state=archived")).ids).toEqual([old.id]);
  });

  const WRONG = ["page=-1", "pageSize=0", "pageSize=201", "state=gone", "includeArchived=perhaps", "page=1.5"];
  test.each(WRONG)("the list refuses %s", async (query) => {
    const issues = [{ path: `querystring.${query.split("=")[0]}` }];
    expect(await refused(node.get(`/session/list?${query}`))).toMatchObject({ errorCode: "bad_request", issues });
  });
});

describe("a search", () => {
  test("a search finds words of titles, summaries and messages, and the id", async () => {
    const ann = new E2eClient(node);
    const titled = await ann.create("music", { title: "Trip to Rome" });
    const said = await ann.create("general");
    await ann.talk(said.id, "hello, is the Éiffel tower open?");
    expect(await find(ann, "rome")).toEqual([titled.id]);
    expect(await find(ann, "ROME trip")).toEqual([titled.id]);
    expect(await find(ann, "eiffel")).toEqual([said.id]);
    // The agent's last message is the summary.
    expect((await ann.see(said.id)).summary).toBe("Hello there.");
    expect(await find(ann, "there")).toEqual([said.id]);
    expect(await find(ann, titled.id)).toEqual([titled.id]);
    expect(await find(ann, "paris")).toEqual([]);
    // An empty text is not a search.
    for (const q of ["", "   "]) expect(await find(ann, q)).toHaveLength(2);
  });

  test("a search finds Chinese words within a sentence, in titles and in messages", async () => {
    const ann = new E2eClient(node);
    const titled = await ann.create("navigation", { title: "正在导航中" });
    const said = await ann.create("general");
    await ann.talk(said.id, "hello 请问现在能导航去机场吗？");
    expect(new Set(await find(ann, "导航"))).toEqual(new Set([titled.id, said.id]));
    expect(await find(ann, "正在导航")).toEqual([titled.id]);
    expect(await find(ann, "机场")).toEqual([said.id]);
    expect(await find(ann, "航导")).toEqual([]);
    expect(await find(ann, "中")).toEqual([titled.id]);
  });

  test("a search finds the current title, and nothing that was deleted", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music", { title: "Tannenbaum" });
    await accepted(node.patch(`/session/${id}`, { title: "Birnbaum" }));
    expect(await find(ann, "tannenbaum")).toEqual([]);
    expect(await find(ann, "birnbaum")).toEqual([id]);
    await accepted(node.delete(`/session/${id}`));
    expect(await find(ann, "birnbaum")).toEqual([]);
  });

  test("a search treats the operators of search engines as plain words", async () => {
    const ann = new E2eClient(node);
    const { id } = await ann.create("music", { title: 'He said "OR" and 100% of them_laughed' });
    expect(await find(ann, '"or"')).toEqual([id]);
    for (const q of ['"', "'", "*", "AND NOT", "a:b", "(", "%", "_"])
      expect(await find(ann, q), q).toEqual(expect.any(Array));
  });
});
