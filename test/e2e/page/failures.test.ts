import { expect, onTestFinished, test } from "vitest";
import type { LogEvent } from "../../../page/log/log-event.ts";
import { writeLogFile } from "../../../page/log/log-file.ts";
import { addressOf, describePage, shown, startPageNode } from "../../support/browsers/page-stage.ts";
import { E2E_AGENTS } from "../../support/catalogs/e2e-catalog.ts";
import { writeTemporary } from "../../support/clients/callers.ts";
import { E2eClient } from "../../support/clients/e2e-client.ts";
import { MADE_FLOOR, MadeLog } from "../../support/documents/made-log.ts";

const keyless = { name: "keyless", adapter: { kind: "ai-sdk", provider: "openai", model: "m", api_key_env: "NO_KEY" } };

const node = await startPageNode({ agents: [...E2E_AGENTS, keyless] });

describePage("the page's failures", (open) => {
  test("a failed turn says why in Chinese, with the server's own words, in the session and in the log, and its agent is not available", async () => {
    const session = await new E2eClient(node).hold("keyless");
    const page = await open(addressOf(node, "session", session), { locale: "zh-CN" });
    await page.getByLabel("说点什么").fill("go");
    await page.getByLabel("说点什么").press("Enter");
    const why = "模型提供方拒绝了请求。（This agent has no key for its model's provider.）";
    await page.getByRole("alert").getByText(why).first().waitFor();
    await page.reload();
    await page.getByRole("alert").getByText(why).first().waitFor();
    await page.goto(addressOf(node, "floor", session));
    await page.locator("[data-card]").getByText(why).first().waitFor();
    await page.goto(addressOf(node, "timeline", session));
    await page.getByRole("region", { name: "日志" }).getByText(why).first().waitFor();
    await page.getByRole("button", { name: "English" }).click();
    const own = page.getByRole("region", { name: "Log" }).getByText("This agent has no key for its model's provider.");
    await expect.poll(() => own.first().textContent()).not.toContain("拒绝");
    await page.goto(addressOf(node, "floor", session));
    const agents = page.getByRole("region", { name: "Agents" });
    await shown(agents.getByRole("button", { name: /^Keyless/ }).getByText("Not available"));
    expect(await agents.getByRole("button", { name: /^Music/ }).innerText()).not.toContain("Not available");
    await page.goto(addressOf(node, "session", session));
    await page.getByText("Not available").waitFor();
  });

  test("a refused command and a file that cannot be read say why in the page's language, by the page and by the server, also after the language changes", async () => {
    const session = await new E2eClient(node).hold("general");
    const page = await open(addressOf(node, "session", session), { expected: /40[09]/, locale: "zh-CN" });
    const choose = async (button: string, text: string) => {
      const chooser = page.waitForEvent("filechooser");
      await page.getByRole("button", { name: button }).click();
      await (await chooser).setFiles(await writeTemporary("broken.json", text, onTestFinished));
    };
    await choose("打开日志…", "no log");
    await page.getByRole("alert").getByText("无法打开：文件不是 JSON。").waitFor();
    await choose("导入…", "no history\n");
    await shown(page.getByRole("alert").getByText(/^请求的格式有误。（Line 1 of the import: .+）$/));
    await node.post("/message", { type: "chat", sessionId: session.id, content: "hello" });
    await page.getByRole("button", { name: "生成摘要", exact: true }).click();
    const own = "This agent writes no summaries: its entry has no summary.";
    await page.getByRole("alert").getByText(`会话的当前状态不允许此操作。（${own}）`, { exact: true }).waitFor();
    await page.getByRole("button", { name: "English" }).click();
    await page.getByRole("alert").getByText(own, { exact: true }).waitFor();
  });

  test("a link with a wrong id of a floor or a session says what is wrong, and leads on", async () => {
    const page = await open(`${node.url}/#/floor/notauser`, { expected: /400/ });
    await shown(page.getByRole("alert").getByText(/“notauser” is not the id of a floor\. .*u:<user>/));
    await page.getByRole("link", { name: "Open the floor of the user “notauser”" }).click();
    await page.getByRole("heading", { name: "notauser", exact: true, level: 1 }).waitFor();
    await page.getByRole("listitem").first().waitFor();
    await page.goto(`${node.url}/#/session/u%3Anotauser/no%20id`);
    await page.getByText("“no id” is not the id of a session: an id has 1 to 64 of A-Z a-z 0-9 _ -.").waitFor();
    await page.goto(`${node.url}/#/timeline/nor%2Fthis`);
    await page.getByRole("alert").getByText("“nor/this” is not the id of a floor.").waitFor();
    await page.getByRole("link", { name: "Choose another floor" }).waitFor();
  });

  test("a damaged saved log is refused with its line and field, and the page stays", async () => {
    const page = await open(node.url);
    const log = new MadeLog();
    log.create("s1");
    log.move("s1", "created", "active.idle", "activate");
    const events = (JSON.parse(log.toJson()) as { events: LogEvent[] }).events;
    const [, moved] = events;
    const damaged = writeLogFile({ floorId: MADE_FLOOR, events: [events[0]!, { ...moved, data: null } as never] });
    const file = page.locator("input[type=file]").first();
    await file.setInputFiles(await writeTemporary("damaged.json", damaged, onTestFinished));
    const said = "Not opened: Line 3 of the file (event 2) is damaged: data must be object.";
    await page.getByText(said, { exact: true }).waitFor();
    await page.getByRole("navigation", { name: "Views" }).waitFor();
    const whole = writeLogFile({ floorId: MADE_FLOOR, events });
    await file.setInputFiles(await writeTemporary("whole.json", whole, onTestFinished));
    await page.getByRole("img", { name: /1 session over time/ }).waitFor();
  });

  test("a part of the frame that fails says so in its place, and a page whose floor cannot be read says so", async () => {
    const session = await new E2eClient(node).hold("music");
    const page = await open(addressOf(node, "session", session), { expected: /no canvas|TypeError|Cannot read/ });
    const views = page.getByRole("navigation", { name: "Views" });
    await views.waitFor();
    const failure = page.getByRole("alert").filter({ hasText: "Something went wrong" });
    await page.addInitScript("CanvasRenderingContext2D.prototype.fillRect = () => { throw new Error('no canvas') }");
    await page.reload();
    await failure.getByText("Error: no canvas").waitFor();
    await views.waitFor();
    await page.getByLabel("Say something").waitFor();
    await page.route("**/floor/*/log*", async (route) => {
      const page = (await (await route.fetch()).json()) as { events: object[] };
      const events = page.events.map((event) => ({ ...event, type: "session_created", data: null }));
      await route.fulfill({ json: { ...page, events } });
    });
    await page.goto(`${addressOf(node, "session", session)}?at=3`);
    await page.reload();
    // Each part that shows the floor says so.
    const view = failure.first();
    await view.getByText("TypeError").waitFor();
    await view.getByRole("button", { name: "Show the view again" }).waitFor();
  });
});
