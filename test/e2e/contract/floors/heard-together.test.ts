import { afterAll, expect, test } from "vitest";
import { CAR, RESTRICTIONS } from "../../../support/catalogs/car-catalog.ts";
import { accepted, E2eClient } from "../../../support/clients/e2e-client.ts";
import { NodeUnderTest } from "../../../support/nodes/node-under-test.ts";

const node = await NodeUnderTest.start({ agents: CAR, catalog: { restrictions: RESTRICTIONS } });
afterAll(() => node.stop());

const floorOf = async (user: E2eClient) => JSON.parse((await node.get(user.floorPath)).text);

test("sessions that are heard together are shown on their floor, in their views, in the list of floors and in the decision", async () => {
  const ann = new E2eClient(node);
  const music = await ann.hold("music_agent");
  expect(await floorOf(ann)).toMatchObject({ ducked: [], restrictedBy: [] });
  const whatIf = await accepted(node.post(`${ann.floorPath}/what-if`, { agentId: "prompt_agent" }));
  const effects = [{ sessionId: music.id, agentId: "music_agent", becomes: "ducked", level: -14 }];
  expect(whatIf.decision).toMatchObject({ outcome: "granted", rule: 7, effects });
  const asked = await accepted(ann.askToCreate({ agentId: "prompt_agent", activate: true }));
  expect(asked.decision).toMatchObject({ outcome: "granted", rule: 7, effects });
  const floor = await floorOf(ann);
  const ducked = [{ id: music.id, level: -14 }];
  expect(floor).toMatchObject({ holder: { id: asked.session.id }, ducked, paused: [] });
  expect(floor.ducked).toEqual([await ann.see(music.id)]);
  const { floors } = JSON.parse((await node.get("/floors?state=held&limit=1000")).text);
  const summary = floors.find(({ floorId }: { floorId: string }) => floorId === floor.floorId);
  expect(summary).toMatchObject({ state: "held", ducked: 1, paused: 0 });

  await accepted(ann.on(asked.session.id, "archive"));
  expect(await ann.see(music.id)).toMatchObject({ state: "active" });
  expect((await ann.see(music.id)) as object).not.toHaveProperty("level");
});
