import { nearest } from "../config/nearest.ts";
import type { TerminalChat } from "./chat.ts";
import type { ChatCommandName } from "./chat-words.ts";
import { reportWhy } from "./why.ts";

/** What a command needs: `/name rest`. `needsSession`: it is about the session that messages go to. */
interface ChatCommand {
  run: (chat: TerminalChat, rest: string, sessionId: string) => Promise<unknown>;
  needsSession?: true;
}

/** The maximum number of messages that `/history` shows. */
const MAX_HISTORY = 200;
/** The lines of the story that `/why` shows. */
const SHOWN_LINES = 10;

const onSession = (run: (chat: TerminalChat, sessionId: string, rest: string) => Promise<unknown>): ChatCommand => ({
  needsSession: true,
  run: (chat, rest, sessionId) => run(chat, sessionId, rest),
});

const COMMANDS: Readonly<Record<ChatCommandName, ChatCommand>> = {
  agents: { run: listAgents },
  sessions: { run: listSessions },
  session: { run: chooseSession },
  new: {
    run: async (chat, rest) => {
      const { agentId } = await chat.create(rest || undefined);
      chat.say(chat.words.newSession(chat.nameOf(agentId)));
    },
  },
  switch: onSession(async (chat, sessionId, agentId) => {
    const { outcome } = await chat.setting.client.send({ type: "switch_agent", sessionId, agentId });
    if (outcome?.errorCode) chat.refuse(`✗ ${outcome.errorCode}: ${outcome.message}`);
  }),
  pause: onSession((chat, id) => chat.setting.client.pauseSession(id)),
  resume: onSession((chat, id) => chat.setting.client.resumeSession(id)),
  abort: onSession((chat, sessionId) => chat.setting.client.send({ type: "abort", sessionId })),
  move: onSession(async (chat, id, zone) => {
    const { session } = await chat.setting.client.moveSession(id, zone || null);
    await chat.choose(session.id);
  }),
  archive: onSession((chat, id) => chat.setting.client.archiveSession(id)),
  "stop-all": onSession(async (chat, id) => {
    const { archived } = await chat.setting.client.stopAll(chat.sessions.get(id)!.floorId);
    chat.say(chat.words.ended(archived.length));
  }),
  why: onSession(explain),
  history: onSession((chat, id) => chat.showMessages(id, MAX_HISTORY)),
  help: { run: async (chat) => showHelp(chat) },
  quit: { run: async () => undefined },
};

/** Run the command typed after `/`. @returns false to end the chat */
export async function runChatCommand(chat: TerminalChat, line: string): Promise<boolean> {
  const [, name = "", rest = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name as ChatCommandName] : undefined;
  if (name === "quit") return false;
  if (!command) chat.refuse(chat.words.noCommand(name, nearest(name, Object.keys(COMMANDS))));
  else if (command.needsSession && chat.current === undefined) chat.refuse(chat.words.noSession);
  else await command.run(chat, rest.trim(), chat.current ?? "");
  return true;
}

async function showHelp(chat: TerminalChat): Promise<void> {
  for (const [name, help] of Object.entries(chat.words.help)) chat.say(`  /${name.padEnd(10)} ${help}`);
}

async function listAgents(chat: TerminalChat): Promise<void> {
  for (const { id, description } of chat.agents) chat.say(`  ${id}  ${description}`);
}

/** In the order in which they began, so that numbers stay. */
const numbered = (chat: TerminalChat) =>
  [...chat.sessions.values()].sort((one, other) => one.createdAt - other.createdAt);

async function listSessions(chat: TerminalChat): Promise<void> {
  await chat.find();
  for (const [index, { id, agentId, state, activity, title }] of numbered(chat).entries()) {
    const mark = id === chat.current ? "*" : " ";
    const does = activity === "idle" ? state : `${state}, ${activity}`;
    chat.say(`${mark} ${index + 1}  ${chat.nameOf(agentId)}: ${does}  ${title}`);
  }
}

async function chooseSession(chat: TerminalChat, rest: string): Promise<void> {
  if (rest === "" && chat.chooseNone()) return chat.say(chat.words.everyAgent);
  const chosen = numbered(chat).find(({ id }, index) => id === rest || String(index + 1) === rest);
  if (chosen) await chat.choose(chosen.id);
  else chat.refuse(chat.words.noSuchNumber);
}

async function explain(chat: TerminalChat, what: string): Promise<void> {
  const { language } = chat.setting;
  const query = { what, limit: SHOWN_LINES, nameOf: (agentId: string) => chat.nameOf(agentId), language };
  const { lines } = await reportWhy(chat.setting.client, query, Date.now());
  for (const line of lines) chat.say(line);
}
