import { Webhook as Standard } from "standardwebhooks";
import { type Answer, type ReceivedRequest, SmallServer } from "./small-server.ts";

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** What a receiver reads of a request. */
export interface ReadNotice {
  id: string;
  type: string;
  timestamp: string;
  data: {
    webhook?: string;
    floorId: string;
    floorSeq: number;
    sessionId?: string;
    seq?: number;
    agentId: string;
    userId?: string;
    event: { type: string; data: Record<string, unknown> };
  };
}

/** A receiver accepts. */
export const accept: Answer = (response) => void response.writeHead(204).end();

/**
 * The notice of a request, as the reference implementation of Standard Webhooks verifies it.
 * @throws its error if the signature or the time is wrong
 */
export function verified({ headers, body }: ReceivedRequest, secret = SECRET): ReadNotice {
  const content = new Standard(secret).verify(body, headers as Record<string, string>) as Omit<ReadNotice, "id">;
  return { ...content, id: String(headers["webhook-id"]) };
}

/** A real receiver of webhooks, which verifies what it gets. */
export class HookReceiver {
  readonly server: SmallServer;

  private constructor(server: SmallServer) {
    this.server = server;
  }

  static async start(...answers: Answer[]): Promise<HookReceiver> {
    return new HookReceiver(await SmallServer.start(...(answers.length > 0 ? answers : [accept])));
  }

  get url(): string {
    return `${this.server.url}/hook?key=hidden`;
  }

  /** All requests so far, repeats too. */
  get requests(): ReadNotice[] {
    return this.server.heard.filter(({ body }) => body !== "").map((request) => verified(request));
  }

  /** What a receiver that drops repeats has got, in the order of its arrival. */
  get notices(): ReadNotice[] {
    const seen = new Set<string>();
    return this.requests.filter(({ id }) => !seen.has(id) && seen.add(id));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.server[Symbol.asyncDispose]();
  }
}

/** The text of a file with these webhooks, on this machine by default. */
export const webhooksFile = (webhooks: readonly Record<string, unknown>[]): string =>
  JSON.stringify({ webhooks: webhooks.map((hook) => ({ secret: SECRET, private_addresses: true, ...hook })) });
