import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describeWith } from "../programs/suites.ts";
import { PATIENCE_MS } from "../runner/patience.ts";

const LISTENING = /WebDriver BiDi listening on (ws:\/\/\S+)/;
/** Settings that stop dialogs and requests of the browser itself. */
const PREFERENCES = `user_pref("browser.shell.checkDefaultBrowser", false);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("toolkit.telemetry.enabled", false);
user_pref("app.update.enabled", false);
user_pref("browser.safebrowsing.downloads.enabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "http://127.0.0.1:1");
user_pref("remote.active-protocols", 1);
`;

interface BidiAnswer {
  id: number;
  type: "success" | "error" | "event";
  result: { context: string; type: string; result: { value: string }; exceptionDetails?: { text: string } };
  message?: string;
}

interface BidiEvent {
  type: "event";
  method: string;
  params: { level?: string; text?: string };
}

/**
 * Waits in the page until an element contains the text, and returns the element's text; clicks it if `press` is set.
 */
export const findInPage = ({ evaluate }: FirefoxPage, selector: string, text: string, press = false) =>
  evaluate(`new Promise((found, fail) => {
    const until = Date.now() + ${PATIENCE_MS};
    const look = () => {
      const parts = [...document.querySelectorAll(${JSON.stringify(selector)})];
      const part = parts.find(({ textContent }) => textContent.includes(${JSON.stringify(text)}));
      if (!part && Date.now() > until) return fail(new Error(${JSON.stringify(`${selector}: ${text}`)} + "\\n" + document.body.innerText));
      if (!part) return void requestAnimationFrame(look);
      if (${press}) part.click();
      found(part.textContent);
    };
    look();
  })`);

/** A page in Firefox. */
export interface FirefoxPage {
  /** Evaluate an expression in the page and await its promise. The value is a string. */
  evaluate: (expression: string) => Promise<string>;
  /** Errors of the console, of all pages of this Firefox. */
  faults: readonly string[];
}

/** A suite that needs Firefox. */
export function describeInFirefox(name: string, suite: (start: () => Promise<Firefox>) => void): void {
  describeWith(["firefox"], name, (path) => suite(() => Firefox.start(path)));
}

/** A real Firefox, controlled over WebDriver BiDi. */
export class Firefox {
  readonly #child: ChildProcess;
  readonly #profile: string;
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (answer: BidiAnswer) => void>();
  readonly #faults: string[] = [];
  #sent = 0;

  private constructor(child: ChildProcess, profile: string, socket: WebSocket) {
    this.#child = child;
    this.#profile = profile;
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const answer = JSON.parse(String(data)) as BidiAnswer | BidiEvent;
      if (answer.type === "event" && "method" in answer) {
        if (answer.params.level === "error") this.#faults.push(String(answer.params.text));
        return;
      }
      if (!("id" in answer)) return;
      this.#waiting.get(answer.id)?.(answer);
      this.#waiting.delete(answer.id);
    });
  }

  static async start(path: string): Promise<Firefox> {
    const profile = await mkdtemp(join(tmpdir(), "interlock-firefox-"));
    await writeFile(join(profile, "user.js"), PREFERENCES);
    const child = spawn(path, ["--headless", "--no-remote", "--remote-debugging-port=0", "--profile", profile], {
      env: { ...process.env, MOZ_HEADLESS: "1", HOME: profile },
      stdio: ["ignore", "ignore", "pipe"],
    });
    let printed = "";
    const address = await new Promise<string>((resolve, reject) => {
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        printed += text;
        const found = LISTENING.exec(printed)?.[1];
        if (found) resolve(found);
      });
      child.on("close", () => reject(new Error(`Firefox ended: ${printed}`)));
    });
    const socket = new WebSocket(`${address}/session`);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", () => reject(new Error("Firefox takes no connection")));
    });
    const firefox = new Firefox(child, profile, socket);
    await firefox.#ask("session.new", { capabilities: {} });
    await firefox.#ask("session.subscribe", { events: ["log.entryAdded"] });
    return firefox;
  }

  async open(url: string): Promise<FirefoxPage> {
    const { context } = await this.#ask("browsingContext.create", { type: "tab" });
    await this.#ask("browsingContext.navigate", { context, url, wait: "complete" });
    const evaluate = async (expression: string) => {
      const evaluated = await this.#ask("script.evaluate", { expression, target: { context }, awaitPromise: true });
      if (evaluated.exceptionDetails) throw new Error(evaluated.exceptionDetails.text);
      return evaluated.result.value;
    };
    return { evaluate, faults: this.#faults };
  }

  /** Load a page, evaluate an expression in it and await its promise. The value is a string. */
  async evaluate(url: string, expression: string): Promise<string> {
    return (await this.open(url)).evaluate(expression);
  }

  async stop(): Promise<void> {
    this.#socket.close();
    const ended = new Promise((resolve) => this.#child.once("close", resolve));
    this.#child.kill("SIGKILL");
    await ended;
    await rm(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }

  async #ask(method: string, params: object): Promise<BidiAnswer["result"]> {
    this.#sent += 1;
    const id = this.#sent;
    const answered = new Promise<BidiAnswer>((resolve) => this.#waiting.set(id, resolve));
    this.#socket.send(JSON.stringify({ id, method, params }));
    const answer = await answered;
    if (answer.type === "error") throw new Error(`${method}: ${answer.message}`);
    return answer.result;
  }
}
