import type { Language } from "./language.ts";

const en = {
  holds: (name: string) => `${name} has the floor: nothing silences it`,
  isAudible: (name: string, holder: string | undefined, volume: string) =>
    `${name} is heard${holder === undefined ? "" : ` beneath ${holder}`}, ${volume}`,
  hasEnded: (name: string) => `${name} has ended: it asks no more`,
  goesOnIn: (name: string, sessionId: string) => `${name} has ended here: it goes on in the session ${sessionId}`,
  requestsNothing: (name: string) => `${name} does not wait for the floor: it asks when it is activated`,
  waitsForTime: (name: string, at: string, every: string | undefined) =>
    every === undefined
      ? `${name} waits for its time: it asks for the floor on ${at}`
      : `${name} is a series (${every}): its next session asks for the floor on ${at}`,
  waits: (name: string, blocker: string, ahead: number) =>
    `${name} waits for ${blocker}${ahead < 1 ? "" : `, with ${ahead} in the queue before it`}`,
  toEnd: (holder: string) => `${holder} to end`,
  toGiveWay: (holder: string) => `${holder}, which gives way when it has nothing running`,
  theFloor: "the floor",
  unavailable: (name: string) => `${name} does not come up: its agent is disabled, or no longer in the catalogue`,
  pausedByUser: (name: string) => `${name} is paused by its user: only a resume, or its next message, brings it back`,
  gaveBack: (name: string) => `${name} gave the floor back: only a resume, or its next message, lets it ask again`,
  lapsed: (name: string) =>
    `${name} lost its place: its program sent no heartbeat for longer than its lease. A heartbeat alone does not bring it ` +
    "back: its program, once it runs again, must resume the session",
  leftQueue: (name: string, hasLapsed: boolean) =>
    `${name} no longer waits for the floor: ${hasLapsed ? "its program sent no heartbeat for longer than its lease" : "it waited for as long as it may (queue_timeout)"}. ` +
    "It asks again when it is activated, or with its next message",
  failed: (name: string, message: string, code: string, isOver: boolean) =>
    `the last turn of ${name} failed: ${message} (${code})${isOver ? "" : ". Its next message begins a new turn"}`,
  retryAt: (time: string) => `, which its provider does not refuse from ${time} on`,
  freeAt: (time: string) => `, for which there is a budget from ${time} on`,
  providersReason: "interlock status shows operators what the provider itself said",
  waitsForAnswer: (tool: string | undefined, isStill: boolean) =>
    `its ${tool === undefined ? "question waits for an answer" : `call of ${tool} waits for a consent`}${isStill ? ", and its time stands still while it cannot be heard" : ""}`,
  restricted: (name: string, which: string) =>
    `${name} is paused because it is not allowed now${which === "" ? "" : ` (${which})`}: it comes back by itself when that ` +
    "is over",
  paused: (name: string, by: string | undefined, blocker: string) =>
    `${name} is paused${by === undefined ? "" : ` for ${by}`} and waits for ${blocker}: it comes back by itself, unless its ` +
    "agent says resume: manual",
  holderHas: (holder: string, priority: number, keeps: boolean) =>
    `${holder} has the floor with priority ${priority}${keeps ? ", and does not yield" : ""}`,
  free: "the floor is free",
  reserved: (sessionId: string) => `the floor is reserved for the session ${sessionId}`,
  beneathIt: (names: string) => `heard beneath it: ${names}`,
  waiting: (names: string) => `waiting: ${names}`,
  pausedOnes: (names: string) => `paused: ${names}`,
  restrictedBy: (names: string) => `restricted by: ${names}`,
  flags: (names: string) => `flags: ${names}`,
  andMore: (names: string, count: number) => `${names}, and ${count} more`,
  noDecision: (isSession: boolean) => `no decision about this ${isSession ? "session" : "floor"}`,
  wouldBeAudible: (name: string, reason: string) => `If ${name} asked now, it would be heard (${reason})`,
  ifAsked: (name: string, outcome: string) => `If ${name} asked now: it ${outcome}`,
  it: (need: string) => `It ${need}.`,
};

/** The words of `interlock why`, besides those of its story. */
export type WhyWords = typeof en;

const zh: WhyWords = {
  holds: (name) => `${name}拥有发言权：没有谁让它静默`,
  isAudible: (name, holder, volume) => `${name}${holder === undefined ? "" : `在${holder}之下`}播放，${volume}`,
  hasEnded: (name) => `${name}已结束：不再请求`,
  goesOnIn: (name, sessionId) => `${name}在这里已结束：它在会话 ${sessionId} 中继续`,
  requestsNothing: (name) => `${name}没有在等发言权：激活时才会请求`,
  waitsForTime: (name, at, every) =>
    every === undefined
      ? `${name}在等它的时间：它于 ${at} 请求发言权`
      : `${name}是一个系列（${every}）：下一个会话于 ${at} 请求发言权`,
  waits: (name, blocker, ahead) => `${name}在等${blocker}${ahead < 1 ? "" : `，队列中前面还有 ${ahead} 个`}`,
  toEnd: (holder) => `${holder}结束`,
  toGiveWay: (holder) => `${holder}让位（它没有任务在运行时就让位）`,
  theFloor: "发言权",
  unavailable: (name) => `${name}不会播放：它的智能体已停用，或已不在目录中`,
  pausedByUser: (name) => `${name}被用户暂停：只有恢复它，或它的下一条消息，才会让它回来`,
  gaveBack: (name) => `${name}交还了发言权：只有恢复它，或它的下一条消息，才会让它再次请求`,
  lapsed: (name) =>
    `${name}失去了位置：它的程序超过租约时间没有心跳。仅有心跳不会让它回来：程序重新运行后，须恢复这个会话`,
  leftQueue: (name, hasLapsed) =>
    `${name}不再等发言权：${hasLapsed ? "它的程序超过租约时间没有心跳" : "它已等到允许的上限（queue_timeout）"}。激活它，或它的下一条消息，会让它再次请求`,
  failed: (name, message, code, isOver) =>
    `${name}的上一轮失败：${message}（${code}）${isOver ? "" : "。它的下一条消息会开始新的一轮"}`,
  retryAt: (time) => `，其服务方从 ${time} 起不再拒绝`,
  freeAt: (time) => `，${time} 起恢复额度`,
  providersReason: "interlock status 向运维人员显示服务方自己的说法",
  waitsForAnswer: (tool, isStill) =>
    `${tool === undefined ? "它的问题在等回答" : `它对 ${tool} 的调用在等同意`}${isStill ? "；听不到它时，等待时间停止计算" : ""}`,
  restricted: (name, which) => `${name}被暂停，因为现在不允许${which === "" ? "" : `（${which}）`}：限制解除后自动恢复`,
  paused: (name, by, blocker) =>
    `${name}被暂停${by === undefined ? "" : `，让位给${by}`}，在等${blocker}：会自动恢复，除非它的智能体设为 resume: manual`,
  holderHas: (holder, priority, keeps) => `${holder}拥有发言权，优先级 ${priority}${keeps ? "，且不让位" : ""}`,
  free: "发言席空闲",
  reserved: (sessionId) => `发言席为会话 ${sessionId} 保留`,
  beneathIt: (names) => `在其下播放：${names}`,
  waiting: (names) => `等待：${names}`,
  pausedOnes: (names) => `已暂停：${names}`,
  restrictedBy: (names) => `限制：${names}`,
  flags: (names) => `标志：${names}`,
  andMore: (names, count) => `${names}，另有 ${count} 个`,
  noDecision: (isSession) => (isSession ? "没有关于这个会话的决定" : "没有关于这个发言席的决定"),
  wouldBeAudible: (name, reason) => `如果${name}现在请求，它会播放（${reason}）`,
  ifAsked: (name, outcome) => `如果${name}现在请求：${outcome}`,
  it: (need) => `它${need}。`,
};

export const WHY: Readonly<Record<Language, WhyWords>> = { en, zh };
