import type { Language } from "./language.ts";

const en = {
  hint: "/help lists the commands, /quit or Ctrl-C leaves",
  you: "you",
  lost: "— the connection is lost; trying again —",
  back: "— connected again —",
  handsOver: (from: string, to: string) => `${from} hands over to ${to}`,
  asksElsewhere: (name: string) => `${name} asks in another session: /sessions shows them`,
  aborted: "aborted",
  busy: "the agent still answers: wait for it, or end its turn with /abort",
  mayItCall: (call: string, isSensitive: boolean) => `may it call ${call}${isSensitive ? " (sensitive)" : ""}`,
  approvals: "y: yes · a: always in this session · n: no · or say why not",
  choices: "numbers, or other words",
  choice: "a number, or other words",
  newSession: (name: string) => `a new session with ${name}`,
  ended: (count: number) => `ended: ${count}`,
  noCommand: (name: string, meant?: string) =>
    meant === undefined
      ? `there is no /${name}: /help lists the commands`
      : `there is no /${name}; did you mean /${meant}?`,
  noSession: "there is no session yet: send a message, or /new",
  noSuchNumber: "/session N: a number of /sessions",
  everyAgent: "each message goes to the agent that it is for",
  help: {
    agents: "the agents",
    sessions: "your sessions; /session N chooses one",
    session: "N: send messages to this session; without N, each to the agent that it is for",
    new: "[AGENT]: begin a session",
    switch: "AGENT: hand the session over to this agent",
    pause: "release the floor",
    resume: "request the floor again",
    abort: "end the agent's turn",
    move: "[ZONE]: go on on another of your floors; without a zone on the one that has none",
    archive: "end the session",
    "stop-all": "end all sessions that compete for the floor",
    why: "what silences the session, the last decisions, and what would let it through",
    history: "earlier messages",
    help: "this list",
    quit: "leave; your sessions stay",
  },
};

/** The words of `interlock chat`, besides those of its narration. */
export type ChatWords = typeof en;
export type ChatCommandName = keyof ChatWords["help"];

const zh: ChatWords = {
  hint: "/help 列出命令，/quit 或 Ctrl-C 离开",
  you: "你",
  lost: "— 连接已断开，正在重试 —",
  back: "— 已重新连接 —",
  handsOver: (from, to) => `${from}移交给${to}`,
  asksElsewhere: (name) => `${name}在另一个会话里提问：/sessions 会列出它们`,
  aborted: "已中止",
  busy: "智能体还在回答：请等它说完，或用 /abort 结束这一轮",
  mayItCall: (call, isSensitive) => `可以调用 ${call} 吗${isSensitive ? "（敏感）" : ""}`,
  approvals: "y：可以 · a：本会话内总是可以 · n：不可以 · 或说明原因",
  choices: "输入编号（可多个），或其他内容",
  choice: "输入一个编号，或其他内容",
  newSession: (name) => `与${name}的新会话`,
  ended: (count) => `已结束：${count}`,
  noCommand: (name, meant) =>
    `没有 /${name} 这个命令${meant === undefined ? "：/help 列出命令" : `；你是指 /${meant} 吗？`}`,
  noSession: "还没有会话：发一条消息，或用 /new",
  noSuchNumber: "/session N：/sessions 里的编号",
  everyAgent: "每条消息交给它该交给的智能体",
  help: {
    agents: "智能体",
    sessions: "你的会话；/session N 选择一个",
    session: "N：此后的消息发给这个会话；不带 N 时，每条交给它该交给的智能体",
    new: "[智能体]：开始一个会话",
    switch: "智能体：把会话移交给它",
    pause: "交出发言权",
    resume: "再次请求发言权",
    abort: "结束智能体的这一轮",
    move: "[区域]：在你的另一个发言席上继续；不带区域时，在没有区域的发言席上",
    archive: "结束会话",
    "stop-all": "结束所有竞争发言权的会话",
    why: "什么使会话静默，最近的决定，怎样才能通过",
    history: "以前的消息",
    help: "这个列表",
    quit: "离开；你的会话保留",
  },
};

export const CHAT: Readonly<Record<Language, ChatWords>> = { en, zh };
