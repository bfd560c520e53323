import { Readable } from "node:stream";
import type { FastifyReply } from "fastify";
import { z } from "zod";
import { BOUNDS } from "../config/bounds.ts";
import { type Catalog, findAgent } from "../config/catalog/catalog.ts";
import { checkUserZone, newTarget } from "../gateway/chat-commands.ts";
import { inviteBody } from "../gateway/http/json-bodies.ts";
import type { CommandContext, Routes } from "../gateway/route-context.ts";
import { sessionAnswer } from "../gateway/routes/command-answer.ts";
import { plainAnswer } from "../gateway/routes/openapi.ts";
import { AppError } from "../protocol/errors.ts";
import { AgentId, CommandId, ConnectionId, Name, SessionId } from "../protocol/ids.ts";
import { NEW_TITLE, Session } from "../protocol/session.ts";
import type { Clock, Timer } from "../shared/ports/clock.ts";
import type { BlobStore } from "../store/store.ts";
import { ByteLines } from "./byte-lines.ts";
import type { Copies } from "./copies.ts";
import { EXPORT_FORMATS, exportedPieces, MEDIA_TYPES } from "./exported-history.ts";
import { type ImportedSession, importHistory, MAX_LINE_BYTES } from "./imported-history.ts";
import type { StagedHistory } from "./staged-history.ts";

const ImportQuery = z.object({
  agentId: AgentId.optional().meta({
    description: "default: the file's agent if it exists here, else the default agent",
  }),
  userId: Name.optional(),
  zone: Name.optional(),
  workspaceId: Name.optional(),
  connectionId: ConnectionId.optional(),
  commandId: CommandId.optional(),
});

interface SentFile {
  /** The media type. */
  type: string;
  name: string;
  clock: Clock;
  /** Called when the file is sent, or its reader has left. */
  onClose: () => void;
}

/** Send pieces as a file, as they are made. */
export function sendFile(reply: FastifyReply, pieces: AsyncIterable<string>, { type, name, clock, onClose }: SentFile) {
  const body = Readable.from(unlessStalled(), { objectMode: false });
  body.once("close", onClose);
  return reply
    .type(type)
    .header("Content-Disposition", `attachment; filename="${name}"`)
    .header("Cache-Control", "no-store")
    .header("X-Content-Type-Options", "nosniff")
    .send(body as unknown as string);

  /** Cut off a reader that does not drain its socket, because nothing else would end its export. */
  async function* unlessStalled(): AsyncGenerator<Buffer> {
    let timer: Timer | undefined;
    try {
      for await (const piece of pieces) {
        timer = clock.after(BOUNDS.stallMs, () => reply.raw.destroy());
        yield Buffer.from(piece);
        timer.cancel();
      }
    } finally {
      timer?.cancel();
    }
  }
}

/** What these routes depend on. */
interface Context extends CommandContext {
  catalog: () => Catalog;
  copies: Copies;
  store: BlobStore;
  clock: Clock;
}

/** Exports sessions to files, and imports them. */
export function exportRoutes(app: Routes, context: Context): void {
  const { commands, store, clock, visibleTo } = context;
  const { histories } = context.copies;

  app.get(
    "/session/:id/export",
    {
      schema: {
        tags: ["sessions"],
        operationId: "exportSession",
        summary: "Export a session",
        description:
          "The finished messages, oldest first: as Markdown for people, or as lines of JSON that can be imported. The last line is `end`; a file without it is incomplete.",
        params: z.object({ id: SessionId }),
        querystring: z.object({ format: z.enum(EXPORT_FORMATS).default("md") }),
        response: {
          200: {
            description: "The session as a file.",
            content: {
              ...plainAnswer("text/markdown", "").content,
              ...plainAnswer("application/x-ndjson", "").content,
            },
          },
        },
      },
    },
    async (request, reply) => {
      const caller = context.callerOf(request);
      const { format } = request.query;
      const sessions = visibleTo(caller);
      const { session } = await sessions.view(request.params.id, 0);
      const pieces = exportedPieces(format, sessions, session, clock.now());
      return sendFile(reply, pieces, {
        type: MEDIA_TYPES[format],
        name: `${session.id}.${format}`,
        clock,
        onClose: histories.enter(caller),
      });
    },
  );

  app.post(
    "/session/import",
    {
      config: { acceptsLines: true },
      schema: {
        tags: ["sessions"],
        operationId: "importSession",
        summary: "Import a session",
        description:
          "Reads the lines of JSON of an export, and creates a session of the caller with these messages. All ids are replaced. A fault is reported with its line, and nothing is created.",
        querystring: ImportQuery,
        response: {
          200: z.object({ success: z.literal(true), session: Session, position: z.string().optional() }),
        },
      },
    },
    async (request) => {
      const caller = context.callerOf(request);
      const { query } = request;
      const { userId, zone, workspaceId, connectionId } = query;
      checkUserZone(caller, query);
      const { arrival } = request;
      if (!arrival || !(request.body instanceof Readable)) {
        throw new AppError(
          "bad_request",
          "The import has no body. Send the lines of an export as application/x-ndjson.",
        );
      }
      inviteBody(arrival);
      const { loan } = arrival;
      const source = new ByteLines(request.body, { maxLineBytes: MAX_LINE_BYTES, maxBytes: BOUNDS.importBytes, loan });
      const identity = await commands.identify(caller, request, query);
      let file: ImportedSession = {};
      const read = async (history: StagedHistory) => {
        file = await importHistory(source, { store, clock, into: history });
        return source.digest();
      };
      const reply = await histories.createFrom(identity, connectionId, read, async (history) => {
        const { sessionId } = history;
        const isKnown = file.agentId !== undefined && findAgent(context.catalog(), file.agentId, workspaceId)?.enabled;
        const agentId = query.agentId ?? (isKnown ? file.agentId : undefined);
        const title = file.title === NEW_TITLE ? undefined : file.title;
        const { floorId, creates: session } = newTarget(caller, sessionId, {
          agentId,
          userId,
          zone,
          workspaceId,
          title,
          locale: identity.locale,
        });
        const imported = await history.finish({ by: "import" });
        return { floorId, command: { type: "session.copy", sessionId, session, history: imported, activate: false } };
      });
      return sessionAnswer(commands, reply);
    },
  );
}
