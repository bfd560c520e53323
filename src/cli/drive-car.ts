import type { SessionAnswer } from "../client/answers.ts";
import { keepLease } from "../client/live/lease.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Cast, Scene } from "./drive-scenes.ts";
import type { Stage } from "./drive-stage.ts";

/** The values of config/car.yaml that its scene depends on. */
export const CAR_CAST: Cast = {
  phone_agent: { priority: 90, interruptible: false, zh: "电话" },
  prompt_agent: { priority: 80, interruptible: false, zh: "导航播报" },
  music_agent: { priority: 20, interruptible: true, zh: "音乐" },
};

/** How long a prompt is spoken, and how long the music plays between two prompts, in ms. */
const SPOKEN_MS = 800;

const prompts: Scene = {
  title: { en: "A prompt over music, and into a call", zh: "导航播报压低音乐，也能进通话" },
  story: {
    en: "Music plays. The navigation speaks over it. During a call the navigation is heard too, and the music is silent.",
    zh: "正在放歌。导航播报时歌声压低；通话中也能听到导航，音乐则静音。",
  },
  async play(stage) {
    const leases: (() => void)[] = [];
    const start = async (agentId: string) => {
      const answer = await stage.start(agentId);
      // Plays a session like an external participant.
      const lease = keepLease(stage.client, answer.session.id, true);
      lease.note(answer.session);
      leases.push(() => lease.stop());
      return answer;
    };
    const speak = async (): Promise<SessionAnswer> => {
      const answer = await start("prompt_agent");
      await stage.pass(SPOKEN_MS);
      await stage.client.archiveSession(answer.session.id);
      return answer;
    };
    try {
      const { session: music } = await start("music_agent");
      await stage.pass(SPOKEN_MS);
      const overMusic = await speak();
      await untilState(stage, music.id, "active.idle", 2);
      const beforeCall = statesOf(stage, music.id);
      const { session: phone } = await start("phone_agent");
      await stage.pass(SPOKEN_MS);
      const inCall = await speak();
      const duringCall = statesOf(stage, music.id);
      await stage.client.archiveSession(phone.id);
      await untilState(stage, music.id, "active.idle", 3);

      stage.check(
        { en: "the prompt gets the floor: 80 > 20", zh: "导航播报获得发言权：80 > 20" },
        overMusic.decision?.reason === "preempted",
      );
      stage.check(
        { en: "the music continues beneath it, 14 dB quieter", zh: "音乐在它之下继续，音量降低 14 dB" },
        ducks(overMusic.decision, music.id, -14),
      );
      stage.check(
        {
          en: "when the prompt ends, the music returns to its own volume; it was never silent",
          zh: "播报结束后，音乐恢复自己的音量；它从未静音",
        },
        beforeCall.join() === "active.idle,ducked.idle,active.idle",
      );
      stage.check(
        {
          en: "the prompt is heard during the call, as loud as the call, and the call continues",
          zh: "通话中听得到播报，与通话一样响，通话继续",
        },
        inCall.decision?.reason === "beneath" && inCall.decision.level === 0 && isActiveOnce(stage, phone.id),
      );
      stage.check(
        { en: "the music is silent during the whole call", zh: "整个通话期间音乐静音" },
        duringCall.at(-1) === "paused",
      );
      stage.check(
        { en: "the music resumes when the call ends", zh: "通话结束后音乐恢复" },
        statesOf(stage, music.id).at(-1) === "active.idle",
      );
    } finally {
      for (const stop of leases) stop();
    }
  },
};

export const CAR_SCENES: readonly Scene[] = [prompts];

const statesOf = (stage: Stage, sessionId: string): string[] =>
  stage.transitionsOf(sessionId).map(({ data }) => data.to);

/** Wait until the session has entered this state this many times. */
function untilState(stage: Stage, sessionId: string, state: string, times: number): Promise<void> {
  const count = () => statesOf(stage, sessionId).filter((each) => each === state).length;
  return stage.until(`${state} of the session ${sessionId}`, () => count() >= times);
}

const ducks = (decision: Decision | undefined, sessionId: string, level: number): boolean =>
  decision?.effects?.some(
    (effect) => effect.sessionId === sessionId && effect.becomes === "ducked" && effect.level === level,
  ) === true;

/** Whether the session got the floor, and kept it until its own end. */
const isActiveOnce = (stage: Stage, sessionId: string): boolean =>
  statesOf(stage, sessionId).join() === "active.idle,archived";
