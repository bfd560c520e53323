import type { Socket } from "node:net";
import { TcpProxy } from "./tcp-proxy.ts";

/** While set, messages published on channels with this suffix are dropped. */
type Lost = string | undefined;

const NEWLINE = "\r\n";

/** A proxy to Redis that drops the messages of one channel; neither side notices. */
export class DeafProxy extends TcpProxy {
  lost: Lost;
  /** Dropped messages. */
  count = 0;

  static start(target: string): Promise<DeafProxy> {
    return new DeafProxy(target).open();
  }

  protected override carry(client: Socket, upstream: Socket): void {
    client.pipe(upstream);
    let rest = Buffer.alloc(0);
    upstream.on("data", (bytes) => {
      rest = Buffer.concat([rest, bytes]);
      for (let end = endOf(rest, 0); end !== undefined; end = endOf(rest, 0)) {
        const reply = rest.subarray(0, end);
        rest = rest.subarray(end);
        if (this.#isLost(reply)) this.count += 1;
        else client.write(reply);
      }
    });
  }

  #isLost(reply: Buffer): boolean {
    if (this.lost === undefined || !/^[*>]3\r\n\$7\r\nmessage\r\n/.test(reply.toString("latin1", 0, 32))) return false;
    const channel = reply.toString("latin1").split(NEWLINE)[4];
    return channel?.endsWith(this.lost) === true;
  }
}

/** The end of the reply that begins at `at`; undefined while the reply is incomplete. */
function endOf(bytes: Buffer, at: number): number | undefined {
  const line = bytes.indexOf(NEWLINE, at, "latin1");
  if (line < 0) return undefined;
  const kind = String.fromCharCode(bytes[at]!);
  const count = Number(bytes.toString("latin1", at + 1, line));
  let end: number | undefined = line + NEWLINE.length;
  if ("$!=".includes(kind)) {
    if (count >= 0) end += count + NEWLINE.length;
  } else if ("*~>%".includes(kind)) {
    const items = kind === "%" ? 2 * count : count;
    for (let item = 0; item < items && end !== undefined; item++) end = endOf(bytes, end);
  }
  return end !== undefined && end <= bytes.length ? end : undefined;
}
