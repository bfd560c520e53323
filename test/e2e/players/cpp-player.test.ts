import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { SessionReader } from "../../support/clients/session-reader.ts";
import { CuttingProxy } from "../../support/networks/cutting-proxy.ts";
import { LosingProxy } from "../../support/networks/losing-proxy.ts";
import { TcpProxy } from "../../support/networks/tcp-proxy.ts";
import { type ChildServer, makeInstallation } from "../../support/nodes/child-server.ts";
import { PLAYERS } from "../../support/nodes/players.ts";
import { describeWith } from "../../support/programs/suites.ts";
import { freePort } from "../../support/servers/free-port.ts";
import { SmallServer } from "../../support/servers/small-server.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const SOURCE = fileURLToPath(new URL("../../../examples/cpp-player/player.cpp", import.meta.url));
const RATE = 22_050;
const SONG_SECONDS = 120;
/** One block of 20 ms may be on its way when a state is printed; places are rounded. */
const BLOCK_SECONDS = 0.03;
const AGENTS = [
  // Nothing plays for the prompts.
  ...PLAYERS.map((agent) => (agent.lease === "2s" ? { ...agent, lease: agent.name === "music" ? "1s" : "1h" } : agent)),
  // Its lease does not lapse on a busy machine.
  { name: "leased_music", priority: 20, when_preempted: "duck", lease: "6s", adapter: { kind: "external" } },
];

/** A WAV file in which each sample tells its place, except that it begins anew every 0.9 s. */
function songOf(seconds: number): Buffer {
  const song = Buffer.alloc(44 + seconds * RATE * 2);
  for (let at = 0; at < seconds * RATE; at += 1) song.writeInt16LE(sampleAt(at), 44 + at * 2);
  return song;
}

const sampleAt = (at: number): number => (at % 20_000) + 1_000;
/** 14 dB quieter. */
const QUIETER = 10 ** (-14 / 20);

/** A network that lets a heartbeat pass when the test says so. */
class SlowNetwork extends TcpProxy {
  /** Heartbeats that were sent so far. */
  beats = 0;
  isSlow = true;
  #held: { client: Socket; upstream: Socket; bytes: Buffer } | undefined;

  static start(target: string): Promise<SlowNetwork> {
    return new SlowNetwork(target).open();
  }

  /** Whether the sender of the last one still waits for its answer. */
  get isAwaited(): boolean {
    return this.#held?.client.destroyed === false;
  }

  release(): void {
    const { upstream, bytes } = this.#held!;
    this.#held = undefined;
    upstream.write(bytes);
  }

  protected override carry(client: Socket, upstream: Socket): void {
    upstream.pipe(client);
    client.on("data", (bytes: Buffer) => {
      if (!this.isSlow || !bytes.includes('"heartbeat"')) return void upstream.write(bytes);
      this.beats += 1;
      this.#held = { client, upstream, bytes };
    });
  }
}

/** The compiled program, which plays for one session. */
class CppPlayer {
  readonly ended: Promise<unknown>;
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #sound: Buffer[] = [];

  /** @param words the node's address, the user, the agent, the session and perhaps a file */
  constructor(program: string, ...words: readonly string[]) {
    const child = spawn(program, words, { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (chunk: Buffer) => this.#sound.push(chunk));
    createInterface(child.stderr).on("line", (line) => this.lines.push(line));
    this.ended = once(child, "close").then(([code, signal]) => code ?? signal);
    this.#child = child;
    onTestFinished(() => void child.kill("SIGKILL"));
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  /** Whether its output is read. A program whose output is full hangs. */
  setRead(isRead: boolean): void {
    if (isRead) this.#child.stdout!.resume();
    else this.#child.stdout!.pause();
  }

  /** The states of its session that it has printed, without their seconds. */
  get states(): string[] {
    return this.lines.flatMap((line) => /^[\d.]+ s: (.*)$/.exec(line)?.[1] ?? []);
  }

  /** Where its sound was when it printed a state, in seconds. */
  placeOf(state: string): number {
    return Number.parseFloat(this.lines.find((line) => line.endsWith(`: ${state}`))!);
  }

  /** The samples that it has written. */
  get sound(): Int16Array {
    const bytes = Buffer.concat(this.#sound);
    return new Int16Array(bytes.buffer, bytes.byteOffset, bytes.length >> 1);
  }

  async shows(...states: readonly string[]): Promise<void> {
    await expect.poll(() => this.states).toEqual(states);
  }

  /** Resolves when it has written more. */
  async sounds(): Promise<void> {
    const { length } = this.sound;
    await expect.poll(() => this.sound.length).toBeGreaterThan(length);
  }
}

describeWith(["cpp"], "the player in C++", (compiler) => {
  let program: string;
  let song: string;
  let folder: string;
  let node: ChildServer;
  const closers: (() => Promise<void>)[] = [];
  let users = 0;
  const newUser = () => {
    users += 1;
    return `user-${users}`;
  };

  beforeAll(async () => {
    const made = await makeFolder();
    folder = made.folder;
    closers.push(made.remove);
    song = join(folder, "song.wav");
    await writeFile(song, songOf(SONG_SECONDS));
    program = join(folder, "player");
    await promisify(execFile)(compiler, ["-std=c++17", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", program, "-lcurl"]);
    const installation = await makeInstallation({ agents: AGENTS }, {}, (close) => closers.push(close));
    node = await installation.start();
  });
  afterAll(async () => {
    for (const close of closers.toReversed()) await close();
  });

  async function post(server: ChildServer, path: string, body?: object): Promise<void> {
    const { status } = await server.post(path, body);
    expect(status, path).toBe(200);
  }
  const begin = (userId: string, id: string, agentId: string, server = node) =>
    post(server, "/session/create", { id, agentId, userId, activate: true });
  const archive = (id: string, server = node) => post(server, `/session/${id}/archive`);
  const sessionOf = async (id: string) => (await node.ask("GET", `/session/${id}`)).body.session;
  const stateOf = async (id: string) => (await sessionOf(id)).state;
  const leaseUntil = async (id: string) => (await sessionOf(id)).leaseUntil!;

  /** A player of a new user, which plays its song. */
  async function playing(agent: string, url = node.url) {
    const user = newUser();
    const id = `${user}-song`;
    const player = new CppPlayer(program, url, user, agent, id, song);
    await player.shows("active");
    return { user, id, player };
  }

  test("it is quieter beneath a prompt, silent for another, and goes on where it was; SIGTERM ends its session", async () => {
    const { user, id, player } = await playing("slow_music");
    await player.sounds();
    await begin(user, `${user}-left`, "prompt");
    await player.shows("active", "ducked at -14 dB");
    await player.sounds();
    await archive(`${user}-left`);
    await expect.poll(() => player.states.at(-1)).toBe("active");
    await player.sounds();
    await begin(user, `${user}-talk`, "general");
    await expect.poll(() => player.states.at(-1)).toBe("paused");
    await archive(`${user}-talk`);
    await expect.poll(() => player.states.at(-1)).toBe("active");
    await player.sounds();
    player.signal("SIGTERM");
    expect(await player.ended).toBe(0);
    expect(await stateOf(id)).toBe("archived");

    const levels: string[] = [];
    for (const [at, sample] of player.sound.entries()) {
      const level =
        sample === sampleAt(at) ? "own" : sample === Math.round(sampleAt(at) * QUIETER) ? "quieter" : "wrong";
      if (levels.at(-1) !== level) levels.push(level);
    }
    expect(levels).toEqual(["own", "quieter", "own"]);
    const [back] = player.lines.slice(player.lines.findIndex((line) => line.endsWith("paused")) + 1);
    expect(Number.parseFloat(back!)).toBeLessThan(player.placeOf("paused") + BLOCK_SECONDS);
  });

  test("it says why it may not play, and ends", async () => {
    const user = newUser();
    await begin(user, `${user}-talk`, "general");
    const player = new CppPlayer(program, node.url, user, "slow_music", `${user}-song`, song);
    expect(await player.ended).toBe(1);
    expect(player.lines).toEqual(["General is running; Slow Music has to wait."]);
    expect(player.sound).toHaveLength(0);
    expect((await node.ask("GET", `/session/${user}-song`)).status).toBe(404);
  });

  test("it plays on while its node is killed, and obeys the one that follows", async () => {
    const installation = await makeInstallation({ agents: AGENTS }, { PORT: String(await freePort()) });
    const first = await installation.start();
    const player = new CppPlayer(program, first.url, "ann", "slow_music", "song", song);
    await player.shows("active");
    await first.kill();
    await player.sounds();
    const second = await installation.start();
    await begin("ann", "left", "prompt", second);
    await player.shows("active", "ducked at -14 dB");
    await second.kill();
    player.signal("SIGTERM");
    expect(await player.ended).toBe(0);
  });

  test("a request whose answer was lost is sent again, and has one effect", async () => {
    const proxy = await LosingProxy.start(node.url);
    proxy.loseNextAnswer();
    const { user } = await playing("slow_music", proxy.url);
    expect(proxy.lost).toBe(1);
    const { body } = await node.ask("GET", `/floor/u%3A${user}`);
    expect(body["decisions"]).toHaveLength(1);

    await begin(user, `${user}-talk`, "general");
    proxy.loseNextAnswer();
    const refused = new CppPlayer(program, proxy.url, user, "slow_music", `${user}-other`, song);
    expect(await refused.ended).toBe(1);
    expect(refused.lines).toEqual(["General is running; Slow Music has to wait."]);
  });

  test("over a cut connection it misses nothing, and does nothing twice", async () => {
    const proxy = await CuttingProxy.start(node.url);
    const { user, player } = await playing("slow_music", proxy.url);
    proxy.refuse();
    await begin(user, `${user}-one`, "prompt");
    await archive(`${user}-one`);
    await begin(user, `${user}-two`, "general");
    await player.sounds();
    proxy.admit();
    await player.shows("active", "ducked at -14 dB", "active", "paused");
    proxy.cut();
    await archive(`${user}-two`);
    await expect.poll(() => player.states.slice(4)).toEqual(["active"]);
    await player.sounds();
  });

  /** Stops a player in some way, until its session has lost its place. */
  async function loseLease(id: string, stop: () => void): Promise<void> {
    const reader = await SessionReader.of(node, id);
    stop();
    await reader.until(() =>
      reader.eventsOf(id, "session_transition").some(({ data }) => data["reason"] === "lease_expired"),
    );
  }

  test.each<[how: string, stop: (player: CppPlayer) => void, goOn: (player: CppPlayer) => void]>([
    ["that was frozen", (player) => player.signal("SIGSTOP"), (player) => player.signal("SIGCONT")],
    ["whose output was not read", (player) => player.setRead(false), (player) => player.setRead(true)],
  ])("a player %s for longer than its lease asks again", async (_, stop, goOn) => {
    const { id, player } = await playing("music");
    await loseLease(id, () => stop(player));
    goOn(player);
    await expect.poll(() => stateOf(id)).toBe("active");
    await expect.poll(() => player.states.slice(1).at(-1)).toMatch(/^active/);
    await player.sounds();
  });

  test("its heartbeats renew its lease", async () => {
    const { id, player } = await playing("leased_music");
    const first = await leaseUntil(id);
    await expect.poll(() => leaseUntil(id)).toBeGreaterThan(first + 2_000);
    // It never lapsed meanwhile.
    expect(player.states).toEqual(["active"]);
  });

  test("on a network on which each heartbeat takes longer than the time between two, its session stays", async () => {
    const network = await SlowNetwork.start(node.url);
    const { id, player } = await playing("leased_music", network.url);
    const first = await leaseUntil(id);
    for (let beats = 1; beats <= 3; beats += 1) {
      await expect.poll(() => network.beats).toBe(beats);
      const { length } = player.sound;
      // The next one would be due after 2 s. The sound takes as long as it lasts.
      await expect.poll(() => player.sound.length - length).toBeGreaterThan(2.2 * RATE);
      expect([network.beats, network.isAwaited]).toEqual([beats, true]);
      network.release();
    }
    network.isSlow = false;
    await expect.poll(() => leaseUntil(id)).toBeGreaterThan(first + 6_000);
    expect(player.states).toEqual(["active"]);
  });

  test("if another has the floor by then, it says so and stays silent", async () => {
    const { user, id, player } = await playing("music");
    await loseLease(id, () => player.signal("SIGSTOP"));
    await begin(user, `${user}-talk`, "general");
    player.signal("SIGCONT");
    await expect.poll(() => player.lines).toContain("General is running; Music has to wait.");
    await player.shows("active", "paused");
    await archive(`${user}-talk`);
    player.signal("SIGTERM");
    expect(await player.ended).toBe(0);
    expect(player.sound.length / RATE).toBeLessThan(player.placeOf("paused") + BLOCK_SECONDS);
  });

  test("a player that was killed goes on with its session when it starts again", async () => {
    const { user, id, player: killed } = await playing("music");
    const reader = await SessionReader.of(node, id);
    killed.signal("SIGKILL");
    expect(await killed.ended).toBe("SIGKILL");
    await reader.until(() => reader.eventsOf(id, "session_transition").at(-1)?.data["to"] === "paused");
    const next = new CppPlayer(program, node.url, user, "music", id, song);
    await next.shows("paused", "active");
    await next.sounds();
  });

  test("a session that its user moves to another floor goes on there, with its lease, and obeys that floor", async () => {
    const { user, player, id: from } = await playing("leased_music");
    const { body } = await node.post(`/session/${from}/move`, { zone: "rear" });
    const { id } = body.session;
    const first = await leaseUntil(id);
    await expect.poll(() => leaseUntil(id)).toBeGreaterThan(first + 1_000);
    await player.sounds();
    const talk = { id: `${user}-talk`, agentId: "general", userId: user, zone: "rear", activate: true };
    await post(node, "/session/create", talk);
    await player.shows("active", "paused");
    await archive(talk.id);
    await player.shows("active", "paused", "active");
    player.signal("SIGTERM");
    expect(await player.ended).toBe(0);
    expect(await stateOf(id)).toBe("archived");
  });

  test("a session that another ends, or that is deleted, ends it", async () => {
    for (const [method, path] of [
      ["POST", "/archive"],
      ["DELETE", ""],
    ] as const) {
      const { id, player } = await playing("slow_music");
      await node.ask(method, `/session/${id}${path}`);
      expect(await player.ended).toBe(0);
    }
  });

  test("whatever answers it, it is not louder than its own volume, and goes on to follow", async () => {
    const session = { id: "song", state: "ducked", level: 40, leaseMs: -5 };
    const transition = { type: "session_transition", seq: 3, data: { to: "ducked.idle", level: 40 } };
    const streams = [
      // More than it reads.
      [`data: ${"x".repeat(9 << 20)}\n\n`],
      // Bytes, a line and a text that it cannot read, and an end without a word.
      [Buffer.from([0, 255, 10, 10]), `data: ${"x".repeat(3 << 20)}\n\n`, `id: a.2.c\ndata: ${"[".repeat(99)}\n\n`],
      [
        `id: a.3.c\ndata: ${JSON.stringify(transition)}\n\n`,
        'data: {"type": "bye", "data": {"reason": "draining"}}\n\n',
      ],
      ['data: {"type": "session_transition", "seq": 4, "data": {"to": "paused"}}\n\n', "data: {\n"],
      ['id: a.5.c\ndata: {"type": "reset", "data": {"from": 5}}\n\n'],
    ];
    const afterGap = { position: "a.9.c", session: { ...session, state: "active", level: [] } };
    const positions: unknown[] = [];
    await using liar = await SmallServer.start((response, { url, headers }) => {
      if (url === "/session/create") return void response.end(JSON.stringify({ position: "a.1.c", session }));
      if (url === "/session/song") return void response.end(JSON.stringify(afterGap));
      if (!url.endsWith("/events")) return void response.end("x".repeat(2 << 20));
      positions.push(headers["last-event-id"]);
      const stream = streams.shift();
      if (!stream) return void response.writeHead(204).end();
      for (const part of stream) response.write(part);
      response.end();
    });
    const player = new CppPlayer(program, liar.url, "ann", "slow_music", "song", song);
    expect(await player.ended).toBe(0);
    expect(player.states).toEqual(["ducked at 40 dB", "paused", "active"]);
    expect(positions).toEqual(["a.1.c", "a.1.c", "a.2.c", "a.3.c", "a.3.c", "a.9.c"]);
    expect([...player.sound].every((sample, at) => sample === sampleAt(at))).toBe(true);
  });

  test("heartbeats that are not answered are as many as the lease of the first answer asks for", async () => {
    const session = { id: "song", state: "active", leaseMs: 1_000 };
    let beats = 0;
    await using busy = await SmallServer.start((response, { url }) => {
      if (url === "/session/create") return void response.end(JSON.stringify({ position: "a.1.c", session }));
      if (url.endsWith("/events")) return void response.write(": open\n\n");
      beats += 1;
      response.writeHead(503).end();
    });
    const player = new CppPlayer(program, busy.url, "ann", "slow_music", "song", song);
    // The song is as long as the time that has passed.
    await expect.poll(() => player.sound.length).toBeGreaterThan(2 * RATE);
    expect(beats).toBeGreaterThanOrEqual(3);
  });

  test("words with quotes and backslashes reach the node as they are", async () => {
    const user = `"${newUser()}" \\ 小明`;
    const player = new CppPlayer(program, node.url, user, "slow_music", "quoted-song", song);
    await player.shows("active");
    expect((await node.ask("GET", "/session/quoted-song")).body.session).toMatchObject({ userId: user });
  });
});
