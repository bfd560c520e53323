import { expect, onTestFinished, test } from "vitest";
import { describePage, gone, hasFocus, shown, startPageNode } from "../../support/browsers/page-stage.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { accepted, E2eClient } from "../../support/clients/e2e-client.ts";
import { HookReceiver, webhooksFile } from "../../support/servers/hook-receiver.ts";

const node = await startPageNode();
const runsOfNode = async (of: typeof node) => (await accepted(of.get("/runs"))).runs;

describePage("the node view", (open) => {
  test("the node view shows the node's metrics as they change, and what turns used", async () => {
    const page = await open(`${node.url}/#/node`);
    await shown(page.getByText(/^. Ready$/).first());
    await page.getByText("It is gateway, orchestrator, worker").waitFor();
    const self = page.getByRole("row", { name: /this node Ready gateway, orchestrator, worker 256 / });
    await self.waitFor();
    const commands = page.locator("dl > div", { hasText: "Commands answered" });
    await commands.getByText(/since it started/).waitFor();
    const before = await commands.textContent();
    await node.post("/session/create", { agentId: "music", userId: node.newUser(), activate: true });
    await expect.poll(() => commands.textContent()).not.toBe(before);
    await shown(page.locator("dl > div", { hasText: "Commits, 99 of 100 within" }).getByText(/≤ .* ms/));
    await page.getByRole("heading", { name: "Nodes (1)" }).waitFor();
    const userId = node.newUser("spender");
    const today = () => new Date().toISOString().slice(0, 10);
    const first = today();
    await node.post("/message", { type: "chat", content: "hello", agentId: "general", userId });
    const row = page.getByRole("row", { name: new RegExp(`(${first}|${today()}) ${userId} general`) });
    await shown(row.getByRole("cell").nth(2).getByText("1", { exact: true }));
    await page.getByRole("heading", { name: "Usage by day" }).waitFor();
  });

  test("the node view lists all nodes with their rates, and marks one that is not ready and one that is silent", async () => {
    const page = await open(`${node.url}/#/floor`);
    const answered = { commits: 40, runs: { driven: 1, held: 2, waiting: 3 } };
    let calls = 0;
    await page.route("**/nodes", async (route) => {
      const response = await route.fetch();
      const [own] = ((await response.json()) as { nodes: Record<string, unknown>[] }).nodes;
      const others = [
        {
          node: "far-01234567",
          name: "far",
          roles: ["worker"],
          isSelf: undefined,
          ...answered,
          commits: 40 + 1_000 * calls,
        },
        { node: "ill-01234567", name: "ill", missing: ["the bus is away"], isSelf: undefined },
        { node: "lost-01234567", name: "lost", silentMs: 11_200, isSelf: undefined },
      ];
      calls += 1;
      const nodes = [own, ...others.map((each) => ({ ...own, ...each }))];
      await route.fulfill({ json: { nodes, absentRoles: ["worker", "orchestrator"] } });
    });
    await page.route("**/metrics", async (route) => {
      const response = await route.fetch();
      // Half a minute: more than the largest bucket.
      const text = (await response.text()).replace(
        /^(interlock_commit_seconds_(bucket\{le="\+Inf"\}|count)) .*$/gm,
        "$1 1000",
      );
      await route.fulfill({ response, body: text });
    });
    await page.goto(`${node.url}/#/node`);
    await page.getByRole("heading", { name: "Nodes (4)" }).waitFor();
    const row = (name: RegExp) => page.getByRole("row", { name });
    await row(/^far Ready worker .* 1 · 2 · 3 0$/).waitFor();
    await expect.poll(() => page.locator("tr[data-bad=true]", { hasText: "✕" }).count()).toBe(2);
    await row(/the bus is away/).waitFor();
    await row(/silent for 12 s/).waitFor();
    await page.getByText("No node that answers is a worker: turns wait until one starts.").waitFor();
    await page.getByText(/^. No node that answers is an orchestrator/).waitFor();
    await page.locator("dl > div", { hasText: "Commits, 99 of 100 within" }).getByText("> 5,000 ms").waitFor();
    const cells = row(/^far Ready worker/).getByRole("cell");
    const rate = async () => Number((await cells.nth(5).textContent())?.replace("–", "0"));
    await expect.poll(rate).toBeGreaterThan(100);
  });

  test("the node view lists runs with what they wait for, cancels one, and shows the last failures", async () => {
    const own = await startPageNode({ settings: { INTERLOCK_NAME: "garage" } }, onTestFinished);
    const [ann, bob] = [new E2eClient(own, "ann"), new E2eClient(own, "bob")];
    const music = await ann.hold("music");
    await accepted(ann.say(music.id, "play"));
    const failing = await bob.hold("general");
    const stream = await bob.follow(failing.id);
    await accepted(bob.say(failing.id, "refused"));
    await stream.until("complete");
    const page = await open(`${own.url}/#/node`);
    await page.getByRole("heading", { name: "Runs (1)" }).waitFor();
    const run = page.getByRole("row", { name: /running .* ann at garage for / });
    const cancel = run.getByRole("button", { name: "Cancel run" }).first();
    const question = page.getByRole("group", { name: /End this run/ });
    await cancel.press("Enter");
    await question.getByRole("button", { name: "No", exact: true }).press("Enter");
    await gone(question);
    await hasFocus(cancel);
    await page.keyboard.press("Enter");
    await question.getByRole("button", { name: "Cancel run" }).press("Enter");
    await page.getByText("No run is under way, and none waits.").waitFor();
    expect(await runsOfNode(own)).toEqual([]);
    const failures = page.getByRole("region", { name: "Sessions with a failed turn" }).first();
    await failures.getByRole("row", { name: /The model's provider refused the request.* bob$/ }).waitFor();
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByRole("heading", { name: "运行（0）" }).waitFor();
  });

  test("the node view lists webhooks, tests one, and enables one whose receiver was gone", async () => {
    let isGone = true;
    await using leaving = await HookReceiver.start((response) => {
      response.writeHead(isGone ? 410 : 204).end();
    });
    await using well = await HookReceiver.start();
    const types = ["turn.ended", "decision"];
    const hooks = webhooksFile([
      { name: "leaving", url: leaving.url, types },
      { name: "well", url: well.url, types },
    ]);
    const file = await writeTemporary("webhooks.yaml", hooks, onTestFinished);
    const own = await startPageNode({ settings: { INTERLOCK_WEBHOOKS: file } }, onTestFinished);
    await new E2eClient(own, "ann").hold("music");
    const page = await open(`${own.url}/#/node`);
    await page.getByRole("heading", { name: "Webhooks (2)" }).waitFor();
    await page.getByRole("row", { name: /^well no failure 0 / }).waitFor();
    const row = page.getByRole("row", { name: /^leaving disabled for .* 1 · for .* status 410: the receiver is gone/ });
    await row.getByRole("button", { name: "Send a test" }).click();
    await page.getByText("leaving did not accept the test: status 410: the receiver is gone").first().waitFor();
    isGone = false;
    await row.getByRole("button", { name: "Enable" }).click();
    await page.getByText("leaving is enabled, and what waits is sent.").first().waitFor();
    const healed = page.getByRole("row", { name: /^leaving no failure 0 / });
    await healed.getByRole("button", { name: "Send a test" }).click();
    await page
      .getByText(/^leaving accepted the test with status 204, in \d+ ms\.$/)
      .first()
      .waitFor();
    expect(leaving.notices.map(({ type }) => type)).toEqual(["decision", "test", "test"]);
    await page.getByRole("button", { name: "中文" }).click();
    await page.getByRole("row", { name: /^leaving 没有失败 0 / }).waitFor();
  });

  test("the node view says where the catalogue on disk has faults", async () => {
    const faulty = await startPageNode({ mayFail: true }, onTestFinished);
    await faulty.writeCatalog("agents: [{name: BAD NAME}]");
    const page = await open(`${faulty.url}/#/node`);
    await shown(page.getByText(/agents\.0\.name|agents\[0\]\.name|name/).first());
    await shown(page.locator("code", { hasText: /^\d+:\d+ / }).first());
  });
});
