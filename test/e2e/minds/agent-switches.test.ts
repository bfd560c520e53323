import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { acpAdapter } from "../../support/agents/programs.ts";
import { describeDeployments, Talk } from "../../support/nodes/deployments.ts";
import { startProviderServer } from "../../support/servers/provider-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const provider = await startProviderServer();
const { folder, remove } = await makeFolder();
afterAll(async () => {
  await provider.close();
  await remove();
});

const CATALOG = {
  agents: [
    { name: "coder", adapter: acpAdapter("resumes", folder) },
    { name: "painter", adapter: acpAdapter("resumes", folder) },
    {
      name: "model",
      adapter: { kind: "ai-sdk", provider: "openai-compatible", model: "m", base_url: provider.baseUrl },
    },
  ],
};

/** A turn of the session's coding agent; returns all prompts of this conversation, the newest last. */
async function speak(talk: Talk, agentId: string, content: string): Promise<string[]> {
  await talk.ask(`speak of ${content}`);
  const file = join(folder, `${(await conversationsOf(talk))[agentId]}.json`);
  return JSON.parse(await readFile(file, "utf8"));
}

/** A turn of the model; returns all that its provider received. */
async function ask(talk: Talk, content: string, reply: string): Promise<string> {
  provider.willReply({ kind: "stream", text: [reply] });
  await talk.ask(content);
  return provider.requests.at(-1)!.body;
}

const switchTo = (talk: Talk, agentId: string) => talk.send({ type: "switch_agent", agentId });
const conversationsOf = async (talk: Talk) =>
  ((await talk.session()) as unknown as { agentSessions: Record<string, string> }).agentSessions;

// Both coding agents keep their conversations below the worker's home.
const settings = { XDG_STATE_HOME: folder };
describeDeployments("a session whose agents change", { catalog: () => CATALOG, settings }, (deployment) => {
  test("a session continues with each agent where that agent was, even after the worker and then every node was killed", async () => {
    const talk = await Talk.open(deployment, "coder");
    expect(await speak(talk, "coder", "a red house")).toEqual(["speak of a red house"]);
    const { coder } = await conversationsOf(talk);
    await switchTo(talk, "model");
    expect(await ask(talk, "a green tree", "It is green.")).toContain("a red house");
    await switchTo(talk, "painter");
    const painted = await speak(talk, "painter", "a blue sky");
    expect(painted).toHaveLength(1);
    expectAll(painted[0]!, ["a red house", "a green tree", "It is green.", "a blue sky"], []);

    await deployment.loseWorker();
    await talk.comeBack();

    await switchTo(talk, "coder");
    const [first, coded] = await speak(talk, "coder", "a door");
    expect(first).toBe("speak of a red house");
    expectAll(coded!, ["a green tree", "It is green.", "a blue sky", "a door"], ["a red house"]);
    const conversations = await conversationsOf(talk);
    expect(conversations).toEqual({ coder, painter: expect.stringMatching(/^s-/) });
    expect(conversations["painter"]).not.toBe(coder);

    await switchTo(talk, "model");
    const heard = await ask(talk, "a window", "It is clear.");
    expectAll(heard, ["a red house", "a green tree", "It is green.", "a blue sky", "a door"], []);
    await switchTo(talk, "painter");
    const again = (await speak(talk, "painter", "a cloud")).slice(1);
    expect(again).toHaveLength(1);
    expectAll(again[0]!, ["a door", "a window", "It is clear."], ["a red house", "a green tree", "a blue sky"]);
    // A worker that is the whole node was every node.
    if (!deployment.isEmbedded) {
      await deployment.restart();
      await talk.comeBack();
    }
    await switchTo(talk, "coder");
    expect(await speak(talk, "coder", "a roof")).toHaveLength(3);
    expect(await conversationsOf(talk)).toEqual(conversations);
  });
});

/** An agent's prompt, and the conversation that it knew before. */
function expectAll(prompt: string, told: readonly string[], known: readonly string[]): void {
  for (const each of told) expect(prompt).toContain(each);
  for (const each of known) expect(prompt).not.toContain(each);
}
