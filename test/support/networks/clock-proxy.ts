import type { Socket } from "node:net";
import { askDatabase } from "../servers/postgres-server.ts";
import { TcpProxy } from "./tcp-proxy.ts";

/** The query with which a node reads the database's time, and the query that this proxy puts in its place. */
const ASKED = "clock_timestamp()";
const WRONG = "(clock_timestamp() + (SELECT by FROM public.clock_error))";
/** `P`, PostgreSQL's Parse message, and the size of a message's length field. */
const PARSE = 0x50;
const LENGTH_BYTES = 4;

/** A proxy to PostgreSQL that shifts the clock its clients see by `offsetMs`. */
export class ClockProxy extends TcpProxy {
  readonly #url: string;

  private constructor(url: string) {
    super(url);
    this.#url = url;
  }

  static async start(url: string): Promise<ClockProxy> {
    await askDatabase(url, "CREATE TABLE public.clock_error (by interval NOT NULL)");
    await askDatabase(url, "INSERT INTO public.clock_error VALUES ('0')");
    return new ClockProxy(url).open();
  }

  /** The database's URL through this proxy. */
  get databaseUrl(): string {
    const url = new URL(this.#url);
    url.hostname = "127.0.0.1";
    url.port = String(this.port);
    return url.href;
  }

  async setWrongBy(seconds: number): Promise<void> {
    await askDatabase(this.#url, `UPDATE public.clock_error SET by = '${seconds} seconds'`);
  }

  protected override carry(client: Socket, upstream: Socket): void {
    let rest = Buffer.alloc(0);
    // The first message has no type byte before its length.
    let headBytes = 0;
    client.on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      while (rest.length >= headBytes + LENGTH_BYTES) {
        const end = headBytes + rest.readUInt32BE(headBytes);
        if (rest.length < end) return;
        upstream.write(headBytes === 1 && rest[0] === PARSE ? falsify(rest.subarray(0, end)) : rest.subarray(0, end));
        rest = rest.subarray(end);
        headBytes = 1;
      }
    });
    upstream.on("data", (bytes) => client.write(bytes));
  }
}

function falsify(message: Buffer): Buffer {
  const text = message.toString("latin1");
  if (!text.includes(ASKED)) return message;
  const wrong = Buffer.from(text.replace(ASKED, WRONG), "latin1");
  wrong.writeUInt32BE(wrong.length - 1, 1);
  return wrong;
}
