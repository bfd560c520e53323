/** Real players that know nothing of Interlock; what is heard is measured at the sink's monitor. */

import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, onTestFailed, onTestFinished, test } from "vitest";
import { SONG_LEVEL } from "../../../examples/car/sound/song.ts";
import { keepLease } from "../../../src/client/interlock-client.ts";
import { Desktop, end } from "../../support/desktops/desktop.ts";
import { describeWith, testWith } from "../../support/programs/suites.ts";

const DESKTOP = ["dbus", "mpv", "mpvMpris", "parec"] as const;
/** Only ends what hangs. */
const TIMEOUT_MS = 120_000;

const near = (level: number) => (measured: number) => Math.abs(measured - level) < 0.6;
const isSilent = (measured: number) => measured < -90;

/** Begin a session of another agent: a prompt, a call. */
async function ask(desktop: Desktop, agentId: string): Promise<() => Promise<void>> {
  const { session } = await desktop.client.createSession({ agentId, userId: "ann", activate: true });
  const lease = keepLease(desktop.client, session.id, true);
  lease.note(session);
  const endIt = async () => {
    lease.stop();
    await desktop.client.stopSession(session.id);
  };
  // A failed test leaves no call behind for the next one.
  onTestFinished(({ task }) => (task.result?.state === "fail" ? endIt() : undefined));
  return endIt;
}

/** Wait for the song's own level, or for one that is so many dB above it. */
const heard = (desktop: Desktop, what: string, byDb = 0) => desktop.meter.until(what, near(SONG_LEVEL + byDb));

/** Begin a prompt over the song. */
async function beginPrompt(desktop: Desktop): Promise<() => Promise<void>> {
  await heard(desktop, "the song");
  const endPrompt = await ask(desktop, "prompt_agent");
  await heard(desktop, "the song beneath a prompt", -14);
  return endPrompt;
}

async function beginCall(desktop: Desktop): Promise<() => Promise<void>> {
  const endCall = await ask(desktop, "phone_agent");
  await desktop.meter.until("silence in a call", isSilent);
  return async () => {
    await endCall();
    await heard(desktop, "the song after the call");
  };
}

/** The sessions of the music that are not over. */
const musicIn = async (desktop: Desktop) =>
  (await desktop.client.listSessions({ agentId: "music_agent", userId: "ann" })).sessions;

/** Whether the number stays as it is for longer than a bridge waits before it reads. */
async function isQuiet(count: () => number): Promise<boolean> {
  const before = count();
  await sleep(500);
  return count() === before;
}

/** The state of the newest session of the music. */
async function musicOf(desktop: Desktop): Promise<string | undefined> {
  const newest = { agentId: "music_agent", userId: "ann", includeArchived: true, pageSize: 1 };
  return (await desktop.client.listSessions(newest)).sessions[0]?.state;
}

const isState = (desktop: Desktop, state: string) => expect.poll(() => musicOf(desktop)).toBe(state);

/** One song in every situation of a drive. */
async function checkDrive(desktop: Desktop): Promise<void> {
  const endPrompt = await beginPrompt(desktop);
  await endPrompt();
  await heard(desktop, "the song after the prompt");
  const endCall = await beginCall(desktop);
  await endCall();
}

/**
 * A new stream of mpv while it is quieter. Its sound server may give it the volume of the former one, or the full one.
 */
async function checkNewStream(desktop: Desktop): Promise<void> {
  const endPrompt = await beginPrompt(desktop);
  const former = (await desktop.streams()).map(({ index }) => index);
  const isNew = ({ index }: { index: number }) => !former.includes(index);
  await desktop.press("mpv", "Next");
  await expect.poll(async () => (await desktop.streams()).some(isNew)).toBe(true);
  await heard(desktop, "the next song beneath the prompt", -14);
  await endPrompt();
  await heard(desktop, "the next song after the prompt");
  expect(await musicIn(desktop)).toMatchObject([{ state: "active" }]);
}

/** It opens a stream for each piece, and begins the song again after the last one. */
const NEW_STREAMS = ["--gapless-audio=no", "--loop-playlist=inf"];

describeWith(
  [...DESKTOP, "pipewire"],
  "players of a desktop with PipeWire",
  () => {
    let desktop: Desktop;
    beforeAll(async () => {
      desktop = await Desktop.open("pipewire");
    }, TIMEOUT_MS);
    afterAll(() => desktop?.[Symbol.asyncDispose]());
    beforeEach(async ({ onTestFailed }) => {
      onTestFailed(() => console.info(desktop.lines.join("\n")));
      await expect.poll(() => desktop.streams()).toEqual([]);
    });

    /** Let a player play until the end of the work. */
    function withPlayer(player: ChildProcess, work: () => Promise<void>, signal?: NodeJS.Signals): Promise<void> {
      onTestFinished(async () => {
        await end(player, signal);
        await isState(desktop, "archived");
      });
      return work();
    }
    const withMpv = (work: () => Promise<void>, ...options: string[]) => withPlayer(desktop.mpv(...options), work);

    test("what the user does in the player is a request: a pause, and a play that a call refuses", () =>
      withMpv(async () => {
        const shown = await desktop.notifications();
        await heard(desktop, "the song");
        await desktop.press("mpv", "Pause");
        await isState(desktop, "paused");
        await desktop.press("mpv", "Play");
        await isState(desktop, "active");
        const endCall = await beginCall(desktop);
        await desktop.press("mpv", "Play");
        await desktop.meter.until("silence after the user pressed play in a call", isSilent);
        await expect.poll(() => shown).toEqual([expect.stringMatching(/^mpv: .*Phone/)]);
        await endCall();
        await desktop.press("mpv", "Stop");
        await isState(desktop, "archived");
        // It is stopped, and still there.
      }, "--idle"));

    test("a player that is started in a call is paused until its turn, and plays after the call", async () => {
      const endCall = await ask(desktop, "phone_agent");
      await withMpv(async () => {
        await isState(desktop, "created");
        await desktop.meter.until("silence in the call", isSilent);
        expect(await desktop.streams()).toMatchObject([{ corked: true, mute: false }]);
        await endCall();
        await isState(desktop, "active");
        await heard(desktop, "the song after the call");
      });
    });

    test("a player that is killed while it is quieter loses its session, and the next one has its own level", async () => {
      const first = desktop.mpv();
      const endPrompt = await beginPrompt(desktop);
      await end(first);
      await isState(desktop, "archived");
      await endPrompt();
      await withMpv(async () => void (await heard(desktop, "the next song")));
    });

    test("a bridge that is killed leaves nothing quieter once it is started again, and goes on with the session", () =>
      withMpv(async () => {
        const endPrompt = await beginPrompt(desktop);
        await desktop.stopBridge("SIGKILL");
        await endPrompt();
        await desktop.restartBridge();
        await heard(desktop, "the song at its own level");
        const endCall = await beginCall(desktop);
        await endCall();
      }));

    test("a bridge that is ended puts every level back, and ends the sessions", async () => {
      const mpv = desktop.mpv();
      try {
        const endPrompt = await beginPrompt(desktop);
        await desktop.stopBridge("SIGTERM");
        await heard(desktop, "the song without a bridge");
        await isState(desktop, "archived");
        await endPrompt();
      } finally {
        await end(mpv);
        await desktop.restartBridge();
      }
    });

    test("a stream that a player opens while it is quieter is quieter too, and a new piece is no new session", () =>
      withMpv(
        async () => {
          await heard(desktop, "the song");
          await checkNewStream(desktop);
        },
        ...NEW_STREAMS,
      ));

    test("a second bridge on the same bus ends with a sentence, and changes nothing of the first one's", () =>
      withMpv(async () => {
        const endPrompt = await beginPrompt(desktop);
        expect(await desktop.startAnother()).toBe(1);
        expect(desktop.lines).toContain("interlock: another interlock players runs on this session bus");
        await heard(desktop, "the song beneath the prompt", -14);
        await endPrompt();
      }));

    test("while the node is away a player stays as it is, and obeys again when the node is back", () =>
      withMpv(async () => {
        await heard(desktop, "the song");
        await desktop.killNode();
        await heard(desktop, "the song without a node");
        await desktop.restartNode();
        await checkDrive(desktop);
      }));

    test("a volume that the user changes while a player is quieter stays changed, and is never above its full one", () =>
      withMpv(async () => {
        const endPrompt = await beginPrompt(desktop);
        await desktop.turn("-6dB");
        await heard(desktop, "the song, turned down", -20);
        await endPrompt();
        await heard(desktop, "the song after the prompt, turned down", -6);
        await desktop.turn("100%");
        const endNext = await beginPrompt(desktop);
        await desktop.turn("100%");
        await heard(desktop, "the song beneath the prompt, whatever its slider shows", -14);
        await endNext();
        await heard(desktop, "the song after the prompt");
      }));

    test("a bridge reads the streams because they change, and not because it reads them", () =>
      withMpv(async () => {
        const count = desktop.soundEvents();
        await heard(desktop, "the song");
        await expect.poll(count).toBeGreaterThan(0);
        await expect.poll(() => isQuiet(count)).toBe(true);
      }));

    test("of two players of one kind the one that began last is heard", () =>
      withMpv(async () => {
        await heard(desktop, "the first song");
        const second = desktop.mpv();
        await expect.poll(async () => (await desktop.streams()).map(({ corked }) => corked)).toEqual([true, false]);
        await end(second);
      }));

    test("a player that cannot pause is muted in a call, and keeps its session when it is on the bus again after a restart", () =>
      withPlayer(
        desktop.stubborn(),
        async () => {
          await checkDrive(desktop);
          const [before] = await musicIn(desktop);
          const from = desktop.lines.length;
          await desktop.restartBus();
          await desktop.hears("there again", from);
          await checkDrive(desktop);
          const { session } = await desktop.client.getSession(before!.id);
          expect(session.state).toBe("active");
        },
        "SIGTERM",
      ));

    testWith(
      ["vlc"],
      "VLC is one player, although it has several connections to the bus, and obeys as mpv does",
      async () =>
        withPlayer(await desktop.vlc(), async () => {
          await checkDrive(desktop);
          expect(await musicIn(desktop)).toHaveLength(1);
        }),
      TIMEOUT_MS,
    );

    test("a player that says that it has paused, and sounds on, is silenced in a call", () =>
      withPlayer(desktop.stubborn("pauses"), () => checkDrive(desktop), "SIGTERM"));

    test("a stream without controls obeys by its volume, and its user's mute is left alone", async () => {
      const endCall = await ask(desktop, "ecall_agent");
      const phone = desktop.stream("phone");
      await expect.poll(() => desktop.streams()).toMatchObject([{ corked: false, mute: false }]);
      await desktop.meter.until("silence in the emergency call", isSilent);
      await endCall();
      await heard(desktop, "the call of the phone");
      await end(phone);
    });

    test("a program that starts while another of its role is quieter has its own level, now and later", async () => {
      const mpv = desktop.mpv();
      const endPrompt = await beginPrompt(desktop);
      const other = desktop.stream("music");
      await expect.poll(async () => (await desktop.streams()).length).toBe(2);
      await end(mpv);
      await heard(desktop, "the other program beneath nothing");
      await end(other);
      await endPrompt();
      const again = desktop.stream("music");
      await heard(desktop, "the other program, started again");
      await end(again);
    });

    test("a bridge that is started again during a prompt pauses nothing, and raises nothing", () =>
      withMpv(async () => {
        const endPrompt = await beginPrompt(desktop);
        await desktop.stopBridge("SIGKILL");
        const from = desktop.lines.length;
        await desktop.restartBridge();
        await desktop.hears("mpv plays quieter, -14 dB", from);
        await heard(desktop, "the song beneath the prompt", -14);
        await endPrompt();
        await heard(desktop, "the song after the prompt");
        expect(desktop.lines.slice(from).filter((line) => /paused|may not/.test(line))).toEqual([]);
      }));

    test("what the bridge has paused comes back after an absence that was longer than the lease", () =>
      withMpv(async () => {
        await heard(desktop, "the song");
        const endCall = await ask(desktop, "phone_agent");
        await desktop.meter.until("silence in a call", isSilent);
        await desktop.stopBridge("SIGKILL");
        const pausedBy = async () => (await musicIn(desktop))[0]?.pausedBy;
        await expect.poll(pausedBy, { timeout: 20_000 }).toBe("yield");
        await endCall();
        await desktop.restartBridge();
        await heard(desktop, "the song, resumed");
      }));

    test("players of a session bus that is started again take part no more, and new ones do", async () => {
      const former = desktop.mpv();
      await isState(desktop, "active");
      await desktop.restartBus();
      await isState(desktop, "archived");
      await end(former);
      await withMpv(async () => void (await isState(desktop, "active")));
    });
  },
  TIMEOUT_MS,
);

testWith(
  [...DESKTOP, "pulseaudio"],
  "a song of mpv obeys on PulseAudio too, also in a stream that it opens while it is quieter",
  async () => {
    await using desktop = await Desktop.open("pulseaudio");
    onTestFailed(() => console.info(desktop.lines.join("\n")));
    desktop.mpv(...NEW_STREAMS);
    await checkDrive(desktop);
    await checkNewStream(desktop);
    const endPrompt = await beginPrompt(desktop);
    await desktop.turn("100%");
    await heard(desktop, "the song, turned to its full volume by its user");
    const from = desktop.lines.length;
    await endPrompt();
    await desktop.hears("mpv plays (resumed)", from);
    // It ends when every level is put back.
    await desktop.stopBridge("SIGTERM");
    await heard(desktop, "the song, no louder than that");
  },
  TIMEOUT_MS,
);

testWith(
  [...DESKTOP, "pulseaudio"],
  "a bridge on PulseAudio that is killed leaves nothing quieter, and a program has its own level beside another of its role",
  async () => {
    await using desktop = await Desktop.open("pulseaudio");
    onTestFailed(() => console.info(desktop.lines.join("\n")));
    const mpv = desktop.mpv();
    const endPrompt = await beginPrompt(desktop);
    await desktop.stopBridge("SIGKILL");
    await endPrompt();
    await desktop.restartBridge();
    const endNext = await beginPrompt(desktop);
    const other = desktop.stream("music");
    await expect.poll(async () => (await desktop.streams()).length).toBe(2);
    await end(mpv);
    await heard(desktop, "the other program beneath nothing");
    await end(other);
    await endNext();
    desktop.stream("music");
    await heard(desktop, "the other program, started again");
  },
  TIMEOUT_MS,
);
