import { afterAll, beforeAll, beforeEach, expect, onTestFailed, onTestFinished, test } from "vitest";
import { SONG_LEVEL } from "../../../examples/car/sound/song.ts";
import { keepLease } from "../../../src/client/interlock-client.ts";
import { Desktop, end } from "../../support/desktops/desktop.ts";
import { describeWith, testWith } from "../../support/programs/suites.ts";

/** Real players that know nothing of Interlock; what is heard is measured at the sink's monitor. */

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

/** The state of the newest session of the music. */
async function musicOf(desktop: Desktop): Promise<string | undefined> {
  const agentId = "music_agent";
  const { sessions } = await desktop.client.listSessions({
    agentId,
    userId: "ann",
    includeArchived: true,
    pageSize: 1,
  });
  return sessions[0]?.state;
}

const isState = (desktop: Desktop, state: string) => expect.poll(() => musicOf(desktop)).toBe(state);

/** One song in every situation of a drive. */
async function checkDrive(desktop: Desktop): Promise<void> {
  const { meter } = desktop;
  await meter.until("the song", near(SONG_LEVEL));
  const endPrompt = await ask(desktop, "prompt_agent");
  await meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
  await endPrompt();
  await meter.until("the song after the prompt", near(SONG_LEVEL));
  const endCall = await ask(desktop, "phone_agent");
  await meter.until("silence in a call", isSilent);
  await endCall();
  await meter.until("the song after the call", near(SONG_LEVEL));
}

/** A new stream of mpv while it is quieter. Its sound server may give it the volume of the former one, or the full one. */
async function checkNewStream(desktop: Desktop): Promise<void> {
  const { meter } = desktop;
  const endPrompt = await ask(desktop, "prompt_agent");
  await meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
  const former = (await desktop.streams()).map(({ index }) => index);
  const isNew = ({ index }: { index: number }) => !former.includes(index);
  await desktop.press("mpv", "Next");
  await expect.poll(async () => (await desktop.streams()).some(isNew)).toBe(true);
  await meter.until("the next song beneath the prompt", near(SONG_LEVEL - 14));
  await endPrompt();
  await meter.until("the next song after the prompt", near(SONG_LEVEL));
  const { sessions } = await desktop.client.listSessions({ agentId: "music_agent", userId: "ann" });
  expect(sessions).toMatchObject([{ state: "active" }]);
}

/** It opens a stream for each piece, and begins the song again after the last one. */
const NEW_STREAMS = ["--gapless-audio=no", "--loop-playlist=inf"];

describeWith([...DESKTOP, "pipewire"], "players of a desktop with PipeWire", () => {
  let desktop: Desktop;
  beforeAll(async () => {
    desktop = await Desktop.open("pipewire");
  }, TIMEOUT_MS);
  afterAll(() => desktop?.[Symbol.asyncDispose]());
  beforeEach(async ({ onTestFailed }) => {
    onTestFailed(() => console.info(desktop.lines.join("\n")));
    await expect.poll(() => desktop.streams()).toEqual([]);
  });

  /** Play a song with mpv until the end of the work. */
  async function withMpv(work: () => Promise<void>, ...options: string[]): Promise<void> {
    const mpv = desktop.mpv(...options);
    try {
      await work();
    } finally {
      await end(mpv);
      await expect.poll(() => musicOf(desktop)).toBe("archived");
    }
  }

  test(
    "mpv is quieter beneath a prompt, silent in a call, and back at its own level",
    () => withMpv(() => checkDrive(desktop)),
    TIMEOUT_MS,
  );

  test(
    "what the user does in the player is a request: a pause, and a play that a call refuses",
    () =>
      withMpv(async () => {
        const shown = await desktop.notifications();
        await desktop.meter.until("the song", near(SONG_LEVEL));
        await desktop.press("mpv", "Pause");
        await isState(desktop, "paused");
        await desktop.press("mpv", "Play");
        await isState(desktop, "active");
        const endCall = await ask(desktop, "phone_agent");
        await desktop.meter.until("silence in a call", isSilent);
        await desktop.press("mpv", "Play");
        await desktop.meter.until("silence after the user pressed play in a call", isSilent);
        await expect.poll(() => shown).toEqual([expect.stringMatching(/^mpv: .*Phone/)]);
        await endCall();
        await desktop.meter.until("the song after the call", near(SONG_LEVEL));
        await desktop.press("mpv", "Stop");
        await isState(desktop, "archived");
        // It is stopped, and still there.
      }, "--idle"),
    TIMEOUT_MS,
  );

  test(
    "a player that is started in a call is paused until its turn, and plays after the call",
    async () => {
      const endCall = await ask(desktop, "phone_agent");
      await withMpv(async () => {
        await isState(desktop, "created");
        await desktop.meter.until("silence in the call", isSilent);
        expect((await desktop.streams()).map(({ corked, mute }) => ({ corked, mute }))).toEqual([
          { corked: true, mute: false },
        ]);
        await endCall();
        await isState(desktop, "active");
        await desktop.meter.until("the song after the call", near(SONG_LEVEL));
      });
    },
    TIMEOUT_MS,
  );

  test(
    "a player that is killed while it is quieter loses its session, and the next one has its own level",
    async () => {
      const first = desktop.mpv();
      await desktop.meter.until("the song", near(SONG_LEVEL));
      const endPrompt = await ask(desktop, "prompt_agent");
      await desktop.meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
      await end(first);
      await isState(desktop, "archived");
      await endPrompt();
      await withMpv(async () => void (await desktop.meter.until("the next song", near(SONG_LEVEL))));
    },
    TIMEOUT_MS,
  );

  test(
    "a bridge that is killed leaves nothing quieter once it is started again, and goes on with the session",
    () =>
      withMpv(async () => {
        await desktop.meter.until("the song", near(SONG_LEVEL));
        const endPrompt = await ask(desktop, "prompt_agent");
        await desktop.meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
        await desktop.stopBridge("SIGKILL");
        await endPrompt();
        await desktop.restartBridge();
        await desktop.meter.until("the song at its own level", near(SONG_LEVEL));
        const endCall = await ask(desktop, "phone_agent");
        await desktop.meter.until("silence in a call", isSilent);
        await endCall();
        await desktop.meter.until("the song after the call", near(SONG_LEVEL));
      }),
    TIMEOUT_MS,
  );

  test(
    "a bridge that is ended puts every level back, and ends the sessions",
    async () => {
      const mpv = desktop.mpv();
      try {
        await desktop.meter.until("the song", near(SONG_LEVEL));
        const endPrompt = await ask(desktop, "prompt_agent");
        await desktop.meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
        await desktop.stopBridge("SIGTERM");
        await desktop.meter.until("the song without a bridge", near(SONG_LEVEL));
        await isState(desktop, "archived");
        await endPrompt();
      } finally {
        await end(mpv);
        await desktop.restartBridge();
      }
    },
    TIMEOUT_MS,
  );

  test(
    "a stream that a player opens while it is quieter is quieter too, and a new piece is no new session",
    () =>
      withMpv(
        async () => {
          await desktop.meter.until("the song", near(SONG_LEVEL));
          await checkNewStream(desktop);
        },
        ...NEW_STREAMS,
      ),
    TIMEOUT_MS,
  );

  test(
    "a second bridge on the same bus ends with a sentence, and changes nothing of the first one's",
    () =>
      withMpv(async () => {
        await desktop.meter.until("the song", near(SONG_LEVEL));
        const endPrompt = await ask(desktop, "prompt_agent");
        await desktop.meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
        expect(await desktop.startAnother()).toBe(1);
        expect(desktop.lines).toContain("interlock: another interlock players runs on this session bus");
        await desktop.meter.until("the song beneath the prompt", near(SONG_LEVEL - 14));
        await endPrompt();
      }),
    TIMEOUT_MS,
  );

  test(
    "while the node is away a player stays as it is, and obeys again when the node is back",
    () =>
      withMpv(async () => {
        await desktop.meter.until("the song", near(SONG_LEVEL));
        await desktop.killNode();
        await desktop.meter.until("the song without a node", near(SONG_LEVEL));
        await desktop.restartNode();
        await checkDrive(desktop);
      }),
    TIMEOUT_MS,
  );

  test(
    "a volume that the user changes while a player is quieter stays changed",
    () =>
      withMpv(async () => {
        await desktop.meter.until("the song", near(SONG_LEVEL));
        const endPrompt = await ask(desktop, "prompt_agent");
        await desktop.meter.until("the song beneath a prompt", near(SONG_LEVEL - 14));
        await desktop.turn("-6dB");
        await desktop.meter.until("the song, turned down", near(SONG_LEVEL - 20));
        await endPrompt();
        await desktop.meter.until("the song after the prompt, turned down", near(SONG_LEVEL - 6));
        await desktop.turn("+6dB");
        await desktop.meter.until("the song, turned up", near(SONG_LEVEL));
      }),
    TIMEOUT_MS,
  );

  test(
    "of two players of one kind the one that began last is heard",
    () =>
      withMpv(async () => {
        await desktop.meter.until("the first song", near(SONG_LEVEL));
        const second = desktop.mpv();
        await expect.poll(async () => (await desktop.streams()).map(({ corked }) => corked)).toEqual([true, false]);
        await end(second);
      }),
    TIMEOUT_MS,
  );

  test(
    "a player that cannot pause is muted in a call, and keeps its session when it is on the bus again after a restart",
    async () => {
      const player = desktop.stubborn();
      try {
        await checkDrive(desktop);
        const [before] = (await desktop.client.listSessions({ agentId: "music_agent", userId: "ann" })).sessions;
        const from = desktop.lines.length;
        await desktop.restartBus();
        await desktop.hears("there again", from);
        await checkDrive(desktop);
        const { session } = await desktop.client.getSession(before!.id);
        expect(session.state).toBe("active");
      } finally {
        await end(player, "SIGTERM");
      }
      await isState(desktop, "archived");
    },
    TIMEOUT_MS,
  );

  testWith(
    ["vlc"],
    "VLC is one player, although it has several connections to the bus, and obeys as mpv does",
    async () => {
      const vlc = await desktop.vlc();
      try {
        await checkDrive(desktop);
        const { sessions } = await desktop.client.listSessions({ agentId: "music_agent", userId: "ann" });
        expect(sessions).toHaveLength(1);
      } finally {
        await end(vlc);
      }
      await isState(desktop, "archived");
    },
    TIMEOUT_MS,
  );

  test(
    "a stream without controls obeys by its volume",
    async () => {
      const endCall = await ask(desktop, "ecall_agent");
      const phone = desktop.stream("phone");
      await expect.poll(async () => (await desktop.streams()).map(({ mute }) => mute)).toEqual([true]);
      await endCall();
      await expect.poll(async () => (await desktop.streams()).map(({ mute }) => mute)).toEqual([false]);
      await end(phone);
    },
    TIMEOUT_MS,
  );

  test(
    "players of a session bus that is started again take part no more, and new ones do",
    async () => {
      const former = desktop.mpv();
      await isState(desktop, "active");
      await desktop.restartBus();
      await isState(desktop, "archived");
      await end(former);
      await withMpv(async () => void (await isState(desktop, "active")));
    },
    TIMEOUT_MS,
  );
});

testWith(
  [...DESKTOP, "pulseaudio"],
  "a song of mpv obeys on PulseAudio too, also in a stream that it opens while it is quieter",
  async () => {
    await using desktop = await Desktop.open("pulseaudio");
    onTestFailed(() => console.info(desktop.lines.join("\n")));
    desktop.mpv(...NEW_STREAMS);
    await checkDrive(desktop);
    await checkNewStream(desktop);
  },
  TIMEOUT_MS,
);
