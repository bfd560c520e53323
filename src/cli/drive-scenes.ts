import type { MessageText } from "../client/message-texts.ts";
import type { Decision } from "../protocol/decision.ts";
import type { Bilingual, Stage } from "./drive-stage.ts";

export interface Scene {
  title: Bilingual;
  /** A summary of the scene, in one line. */
  story: Bilingual;
  /** Play the scene and check its outcome. */
  play(stage: Stage): Promise<void>;
}

/** The agents that scenes need, each with its name in Chinese, which a catalogue does not have. */
export type Cast = Readonly<Record<string, { priority: number; interruptible: boolean; zh: string }>>;

/** The values of the shipped catalogue that the scenes depend on. */
export const CAST: Cast = {
  phone_agent: { priority: 90, interruptible: false, zh: "电话" },
  navigation_agent: { priority: 80, interruptible: false, zh: "导航" },
  planner_agent: { priority: 60, interruptible: true, zh: "行程" },
  vehicle_control_agent: { priority: 50, interruptible: true, zh: "车辆控制" },
  weather_agent: { priority: 30, interruptible: true, zh: "天气" },
  music_agent: { priority: 20, interruptible: true, zh: "音乐" },
  chat_agent: { priority: 10, interruptible: true, zh: "闲聊" },
};

const SONG: Bilingual = { en: "Play a song", zh: "放一首歌" };
const CLOSE_WINDOWS: Bilingual = { en: "Close the windows, it rains", zh: "快关上车窗，下雨了" };

const call: Scene = {
  title: { en: "A call interrupts the music", zh: "电话打断音乐" },
  story: {
    en: "Music plays. A call comes in, is answered and ends; the song continues where it stopped.",
    zh: "正在放歌。电话打进来，接听，挂断；歌从停下的地方接着放。",
  },
  async play(stage) {
    const music = await stage.sayUnnamed(SONG);
    await stage.untilDeltas(music.id, 4);
    const phone = await stage.sayUnnamed({ en: "Mum is calling, answer the phone", zh: "妈妈来电，接听" });
    const before = stage.messageOf(music.id);
    const answered = await stage.untilAnswered(phone.id);
    await stage.pass(2_000);
    const ended = await stage.sendAndWait(phone.id, stage.word({ en: "Hang up", zh: "挂断" }));
    await stage.client.archiveSession(phone.id);
    await stage.untilDeltas(music.id, 4);

    stage.check(
      {
        en: "the call gets the floor: 90 > 20, and music may be interrupted",
        zh: "电话获得发言权：90 > 20，音乐可以被打断",
      },
      isPreempted(phone.decision, 90, 20),
    );
    stage.check(
      { en: "the music is paused before the call is active", zh: "电话激活之前，音乐已暂停" },
      isPausedFirst(stage, music.id, phone.id),
    );
    stage.check(
      { en: "nothing is played during the call", zh: "通话期间不播放任何内容" },
      isSilentWhilePaused(stage, music.id),
    );
    stage.check(
      { en: "the call is answered and hung up", zh: "电话已接听并挂断" },
      answered.includes(stage.word({ en: "go ahead", zh: "请讲" })) &&
        ended.includes(stage.word({ en: "over", zh: "结束" })),
    );
    checkHeard(stage, [music, "music_agent"], [phone, "phone_agent"]);
    checkResumed(stage, music.id, before);
  },
};

const smallTalk: Scene = {
  title: { en: "Small talk has to wait for the navigation", zh: "导航中拒绝闲聊" },
  story: {
    en: "The navigation guides the driver. A passenger asks for a joke, and hears why it is refused.",
    zh: "正在导航。乘客想听个笑话，听到的是为什么现在不行。",
  },
  async play(stage) {
    const navigation = await stage.sayUnnamed({ en: "Take me home", zh: "导航回家" });
    await stage.untilDeltas(navigation.id, 1);
    await stage.pass(1_000);
    const before = await stage.client.getSession(navigation.id);
    const joke = await stage.sayInVain({ en: "Tell me a joke", zh: "讲个笑话" });
    const refusal = joke.decision;
    const after = await stage.client.getSession(navigation.id);
    const { total } = await stage.client.listSessions({ userId: stage.userId, includeArchived: true });
    await stage.untilDeltas(navigation.id, 1);
    await untilRefused(stage, "chat_agent");

    stage.check({ en: "the joke is refused: 10 < 80", zh: "笑话被拒绝：10 < 80" }, isRefused(refusal, 10, 80));
    const reason = stage.word({ en: "Navigation is under way; Chat has to wait.", zh: "导航中，暂时无法闲聊" });
    stage.check(
      { en: `the refusal has a spoken reason: ${reason}`, zh: `拒绝有可以说出的理由：${reason}` },
      refusal?.say === reason,
    );
    stage.check(
      { en: "the navigation is unaffected: its log is unchanged", zh: "导航不受影响：它的日志没有变化" },
      before.position === after.position,
    );
    stage.check({ en: "no session was created for the joke", zh: "没有为笑话创建会话" }, total === 1);
    stage.check(
      { en: "the navigation was never paused", zh: "导航从未暂停" },
      !stateSeen(stage, navigation.id, "paused"),
    );
    checkHeard(stage, [navigation, "navigation_agent"], [joke, "chat_agent"]);
  },
};

const windows: Scene = {
  title: { en: "Closing the windows has to wait for the plan", zh: "规划完成之前不关车窗" },
  story: {
    en: "The planner plans a day when it begins to rain. The windows close after the plan.",
    zh: "正在规划行程，下起了雨。规划完成之后才关车窗。",
  },
  async play(stage) {
    const planner = await stage.sayUnnamed({ en: "Plan a trip for tomorrow", zh: "规划明天的行程" });
    const planned = stage.untilAnswered(planner.id);
    // The await below handles a rejection; this only prevents an unhandled rejection until then.
    planned.catch(() => {});
    await stage.untilDeltas(planner.id, 3);
    const tooEarly = await stage.sayInVain(CLOSE_WINDOWS);
    const refusal = tooEarly.decision;
    const { decision: urgent } = await stage.client.whatIf(stage.floorId, "phone_agent");
    await untilRefused(stage, "vehicle_control_agent");
    const plan = await planned;
    await stage.pass(500);
    await stage.client.archiveSession(planner.id);
    const vehicle = await stage.sayUnnamed(CLOSE_WINDOWS);
    const closed = await stage.untilAnswered(vehicle.id);

    stage.check({ en: "the windows are refused: 50 < 60", zh: "关窗被拒绝：50 < 60" }, isRefused(refusal, 50, 60));
    stage.check(
      { en: "the refusal names the missing condition: priority > 60", zh: "拒绝说明了所缺的条件：priority > 60" },
      refusal?.wouldNeed === "priority > 60",
    );
    stage.check(
      { en: "a call, at 90, would get the floor (what-if)", zh: "优先级 90 的电话会获得发言权（预测）" },
      isPreempted(urgent, 90, 60),
    );
    stage.check(
      { en: "the plan was completed without interruption", zh: "行程规划完成，未被打断" },
      plan.includes(stage.word({ en: "drive back", zh: "返程" })) && !stateSeen(stage, planner.id, "paused"),
    );
    stage.check(
      { en: "the windows close afterwards", zh: "之后车窗关上" },
      vehicle.decision?.reason === "floor_free" &&
        closed === stage.word({ en: "The windows are closed.", zh: "车窗已关闭。" }),
    );
    const car = "vehicle_control_agent";
    checkHeard(stage, [planner, "planner_agent"], [tooEarly, car], [vehicle, car]);
  },
};

const weather: Scene = {
  title: { en: "A question about the weather over music", zh: "播放音乐时查天气" },
  story: {
    en: "Music plays. The user asks for the weather and hears the answer; then the music resumes by itself.",
    zh: "正在放歌。用户问天气，听完回答，音乐自己接着放。",
  },
  async play(stage) {
    const music = await stage.sayUnnamed(SONG);
    await stage.untilDeltas(music.id, 4);
    const asked = await stage.sayUnnamed({ en: "What is the weather like?", zh: "查一下天气" });
    const before = stage.messageOf(music.id);
    const answer = await stage.untilAnswered(asked.id);
    await stage.untilDeltas(music.id, 4);

    stage.check(
      {
        en: "the weather gets the floor: 30 > 20, and music may be interrupted",
        zh: "天气获得发言权：30 > 20，音乐可以被打断",
      },
      isPreempted(asked.decision, 30, 20),
    );
    stage.check(
      { en: "the music is paused before the weather is active", zh: "天气激活之前，音乐已暂停" },
      isPausedFirst(stage, music.id, asked.id),
    );
    stage.check(
      { en: "the weather's answer is complete", zh: "天气的回答是完整的" },
      answer.includes(stage.word({ en: "22 degrees", zh: "22 度" })) && /[。.]$/.test(answer),
    );
    stage.check(
      { en: "the weather releases the floor by itself", zh: "天气自行交还发言权" },
      transitionSeen(stage, asked.id, "yield"),
    );
    checkHeard(stage, [music, "music_agent"], [asked, "weather_agent"]);
    checkResumed(stage, music.id, before);
  },
};

/** The four scenes of the priority rules, in the order in which they are played. */
export const SCENES: readonly Scene[] = [call, smallTalk, windows, weather];

/** Check that the catalogue's `routing` has named these agents for what was said. */
function checkHeard(stage: Stage, ...heard: readonly [{ agentId: string | undefined }, string][]): void {
  const isRight = heard.every(([{ agentId }, wanted]) => agentId === wanted);
  stage.check({ en: "each sentence reaches its agent", zh: "每句话都到了该听的智能体" }, isRight);
}

function isPreempted(decision: Decision | undefined, challenger: number, holder: number): boolean {
  if (decision?.outcome !== "granted" || decision.reason !== "preempted") return false;
  return decision.challenger.priority === challenger && decision.holder?.priority === holder;
}

function isRefused(decision: Decision | undefined, challenger: number, holder: number): boolean {
  if (decision?.outcome !== "rejected" || decision.reason !== "lower_priority") return false;
  return decision.challenger.priority === challenger && decision.holder?.priority === holder;
}

/** Wait for a refusal on the floor's stream, because no session's log contains it. */
function untilRefused(stage: Stage, agentId: string): Promise<void> {
  const isIt = (decision: Decision) => decision.outcome === "rejected" && decision.challenger.agentId === agentId;
  return stage.until("the refusal on the floor's stream", () =>
    stage.floor.some((event) => event.type === "arbitration" && isIt(event.data)),
  );
}

function isPausedFirst(stage: Stage, pausedId: string, activeId: string): boolean {
  const paused = stage.transitionsOf(pausedId).find(({ data }) => data.event === "preempt");
  const active = stage.transitionsOf(activeId).find(({ data }) => data.event === "activate");
  return paused !== undefined && active !== undefined && paused.index < active.index;
}

function stateSeen(stage: Stage, sessionId: string, state: string): boolean {
  return stage.transitionsOf(sessionId).some(({ data }) => data.to === state);
}

function transitionSeen(stage: Stage, sessionId: string, event: string): boolean {
  return stage.transitionsOf(sessionId).some(({ data }) => data.event === event);
}

/** Whether the session sent no text between its pause and its resumption, in the connection's order of events. */
function isSilentWhilePaused({ received }: Stage, sessionId: string): boolean {
  const own = received.filter((event) => event.sessionId === sessionId);
  const paused = own.findIndex((event) => event.type === "session_transition" && event.data.to === "paused");
  const resumed = own.findIndex((event) => event.type === "session_transition" && event.data.event === "resume");
  if (paused < 0 || resumed < paused) return false;
  return !own.slice(paused, resumed).some((event) => event.type === "delta");
}

/** Check that the interrupted session resumed by itself and continued the same message where it stopped. */
function checkResumed(stage: Stage, sessionId: string, before: MessageText | undefined): void {
  const after = stage.messageOf(sessionId);
  const isSame = before !== undefined && before.messageId === after?.messageId;
  const goesOn = isSame && after.text.startsWith(before.text) && after.text.length > before.text.length;
  stage.check({ en: "the music resumes by itself", zh: "音乐自行恢复" }, transitionSeen(stage, sessionId, "resume"));
  stage.check({ en: "the song continues where it stopped", zh: "歌从停下的地方接着放" }, goesOn);
}
