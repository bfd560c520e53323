import type { Language } from "./language.ts";

const en = {
  hasFloor: "has the floor",
  inFront: "is in front, at its own volume",
  goesOn: "goes on",
  starts: "starts",
  comesBack: "comes back",
  isPaused: "is paused",
  restricted: "is paused: it is not allowed now",
  pausedFor: (who: string) => `is paused for ${who}`,
  pausedByUser: "is paused by its user",
  replacedBy: (who: string) => `is replaced by ${who}`,
  ends: "ends",
  ownVolume: "at its own volume",
  quieter: (dB: number) => `${dB} dB quieter`,
  ducked: (verb: string, who: string | undefined, volume: string) =>
    `${verb}${who === undefined ? "" : ` beneath ${who}`}, ${volume}`,
  maxHold: "was heard for as long as it may be",
  idleTooLong: "had nothing to do for too long, and gives the floor back",
  silentTooLong: "was silent for too long: it does not come back by itself",
  turnDone: "has done its turn and gives the floor back",
  lost: "sent no heartbeat and lost its place",
  lostForGood: "sent no heartbeat and lost its place: it does not come back by itself",
  wasFree: ": it was free",
  mayInterrupt: (numbers: string, who: string) => `: ${numbers}, and ${who} may be interrupted`,
  letsThrough: (numbers: string, who: string) => `: ${numbers}, and ${who} lets that much through`,
  against: "against",
  waits: "waits: ",
  isRefused: "is refused: ",
  wouldNeed: "would need",
  fails: "fails: ",
};

/** The words of a narration. */
export type NarrationWords = typeof en;

const zh: NarrationWords = {
  hasFloor: "拥有发言权",
  inFront: "回到前台，恢复自己的音量",
  goesOn: "继续",
  starts: "开始",
  comesBack: "恢复",
  isPaused: "被暂停",
  restricted: "被暂停：现在不允许",
  pausedFor: (who) => `被暂停，让位给${who}`,
  pausedByUser: "被用户暂停",
  replacedBy: (who) => `被${who}取代`,
  ends: "结束",
  ownVolume: "音量不变",
  quieter: (dB) => `音量降低 ${dB} dB`,
  ducked: (verb, who, volume) => `${who === undefined ? "" : `在${who}之下`}${verb}，${volume}`,
  maxHold: "发声的时间已到上限",
  idleTooLong: "空闲太久，交还发言权",
  silentTooLong: "静默过久：不会自行恢复",
  turnDone: "完成了这一轮，交还发言权",
  lost: "没有心跳，失去了位置",
  lostForGood: "没有心跳，失去了位置：不会自行恢复",
  wasFree: "：发言席空闲",
  mayInterrupt: (numbers, who) => `：${numbers}，${who}可以被打断`,
  letsThrough: (numbers, who) => `：${numbers}，${who}放行这样的优先级`,
  against: "对",
  waits: "排队：",
  isRefused: "被拒绝：",
  wouldNeed: "需要",
  fails: "失败：",
};

export const NARRATION: Readonly<Record<Language, NarrationWords>> = { en, zh };
