import { z } from "zod";
import type { Caller } from "../../gateway/access/caller.ts";
import type { Routes } from "../../gateway/route-context.ts";
import { AppError } from "../../protocol/errors.ts";
import { SessionId } from "../../protocol/ids.ts";
import { confirmationAnswer } from "../../protocol/interaction.ts";
import { cleanText } from "../../shared/text.ts";
import { mayBeEmpty } from "../absent.ts";
import type { RunAddress } from "../live-runs.ts";
import { unsupported } from "./openai-problem.ts";
import {
  COMMON,
  type EarlierMessage,
  modelOf,
  notOfUser,
  type OpenAiTurn,
  readCommon,
  readContent,
  readToolAnswer,
  turnOfAnswers,
  turnWithEarlier,
} from "./openai-request.ts";
import { answerWithRun, type OpenAiDoor, openAiRoute } from "./openai-run.ts";
import { type ResponseHead, ResponseTranslator, responseOf } from "./response-translator.ts";

const Item = z.looseObject({ type: z.string().max(64).nullish(), role: z.string().max(64).nullish() });
type Item = z.infer<typeof Item>;

const Body = z
  .object({
    ...COMMON,
    input: z.union([z.string(), z.array(Item).min(1).max(4_096)], {
      error: ({ input }) => (Array.isArray(input) ? undefined : "must be text, or a list of items"),
    }),
    instructions: z.string().nullish(),
    prompt: z.unknown().optional().meta({ description: "not supported" }),
    previous_response_id: z.string().max(256).nullish(),
    conversation: mayBeEmpty(z.union([SessionId, z.object({ id: SessionId })])),
    store: z.boolean().nullish(),
    background: z.boolean().nullish(),
    text: z.looseObject({ format: z.looseObject({ type: z.string() }).nullish() }).nullish(),
  })
  .meta({ id: "ResponseRequest" });
type Body = z.infer<typeof Body>;

const Response = z.looseObject({ id: z.string(), object: z.string(), model: z.string() });

/** The messages among which the newest one of a turn is found: a summary may follow it. */
const NEWEST = 4;

/** `POST /v1/responses`: a turn of an agent, for clients of OpenAI's Responses API. */
export function responseRoutes(app: Routes, door: OpenAiDoor): void {
  const { context } = door;
  app.post(
    "/v1/responses",
    openAiRoute("createResponse", "responses", { body: Body, answer: Response, list: "input" }),
    async (request, reply) => {
      const caller = context.callerOf(request);
      const { body } = request;
      if (body.background) throw unsupported("background", "Background responses are not supported.");
      if (body.prompt) throw unsupported("prompt", "Prompts that are stored at OpenAI are not supported.");
      const format = { param: "text.format", type: body.text?.format?.type };
      const { agentId, where, createdAt } = readCommon(context, request, format);
      const identity = await context.commands.identify(caller, request, body);
      const { conversation } = body;
      const named = typeof conversation === "string" ? conversation : conversation?.id;
      const continued = body.previous_response_id ? readResponseId(body.previous_response_id) : undefined;
      const sessionId = continued?.sessionId ?? named ?? where.sessionId;
      const headOf = (address: RunAddress): ResponseHead => ({
        model: modelOf(agentId, address),
        createdAt,
        previousId: body.previous_response_id || null,
      });
      const wanted = {
        identity,
        target: {
          ...where,
          sessionId,
          agentId,
          ...(continued && { check: () => mustBeNewest(caller, continued) }),
          ...(sessionId === undefined && body.store === false && { endsWithTurn: true as const }),
        },
        readTurn: () => readAnswers(body) ?? readChat(body, sessionId !== undefined),
      };
      return answerWithRun({ ...door, request, reply }, wanted, {
        isStream: body.stream === true,
        translator: (address) => new ResponseTranslator(address, headOf(address)),
        whole: (address, summary) => responseOf(address, headOf(address), summary),
      });
    },
  );

  /**
   * Find the session of a response.
   * @throws AppError if there is no such response, or if its session has a newer one
   */
  async function mustBeNewest(caller: Caller, { sessionId, runId }: ResponseId) {
    const sessions = context.visibleTo(caller);
    const { messages, head } = await sessions.messages(sessionId, { limit: NEWEST }).catch((error) => {
      throw error instanceof AppError && error.code === "session_not_found" ? noSuchResponse() : error;
    });
    const newest = messages.findLast(({ summary }) => !summary);
    // Read after the messages: a turn that has joined the queue since has changed the session.
    const waiting = await sessions.queue(sessionId);
    if (newest?.runId === runId && waiting.messages.length === 0) return { sessionId: newest.sessionId, seq: head };
    throw new AppError(
      "bad_request",
      "The request continues an older response. Continue the newest one of the conversation.",
      {
        facts: { param: PREVIOUS },
      },
    );
  }
}

const PREVIOUS = "previous_response_id";

const noSuchResponse = () =>
  new AppError("not_found", "There is no such response.", {
    facts: { param: PREVIOUS, code: "previous_response_not_found" },
  });

interface ResponseId {
  sessionId: SessionId;
  runId: string;
}

/** The session and the run that a response's id names. @throws AppError `not_found` for the id of no response */
function readResponseId(id: string): ResponseId {
  const [session, runId] = id.replace(/^resp_/, "").split(".");
  const sessionId = SessionId.safeParse(session);
  if (!sessionId.success || runId === undefined) throw noSuchResponse();
  return { sessionId: sessionId.data, runId };
}

const isAnswer = ({ type }: Item) => type === "function_call_output" || type === "mcp_approval_response";

/** The answers in the input, if any. All of them are for one session. */
function readAnswers({ input }: Body): OpenAiTurn | undefined {
  if (typeof input === "string" || !isAnswer(input.at(-1)!)) return undefined;
  const from = input.findLastIndex((item) => !isAnswer(item)) + 1;
  const read = input.slice(from).map((item, index) => {
    const at = `input.${from + index}`;
    if (item.type === "function_call_output") {
      const { output } = item;
      const text = Array.isArray(output) ? readContent(output, `${at}.output`).content : output;
      return readToolAnswer(item["call_id"], text, `${at}.call_id`);
    }
    const { approval_request_id: id, approve, reason } = item;
    const { sessionId, answer } = readToolAnswer(
      id,
      approve === true ? "approve" : "reject",
      `${at}.approval_request_id`,
    );
    if (approve === true || typeof reason !== "string" || reason === "") return { sessionId, answer };
    const rejection = { type: "reject_with_reply" as const, reason: cleanText(reason.slice(0, 16_384)) };
    return { sessionId, answer: confirmationAnswer(answer.requestId, rejection) };
  });
  return turnOfAnswers(read);
}

/** The last message of the input. A continued session already has the earlier ones, and its instructions. */
function readChat({ input, instructions }: Body, goesOn: boolean): OpenAiTurn {
  const items: Item[] = typeof input === "string" ? [{ role: "user", content: input }] : input;
  const last = items.length - 1;
  const { role, content } = items[last]!;
  if (role !== "user") {
    throw notOfUser(role ?? items[last]!.type, `input.${last}`);
  }
  const chat = readContent(content, typeof input === "string" ? "input" : `input.${last}.content`);
  if (goesOn) return { chat, title: undefined };
  const earlier: EarlierMessage[] = [{ role: "system", content: instructions, param: "instructions" }];
  for (const [index, item] of items.slice(0, last).entries()) {
    if (typeof item.role !== "string") continue;
    earlier.push({ role: item.role, content: item["content"], param: `input.${index}.content` });
  }
  return turnWithEarlier(earlier, chat);
}
