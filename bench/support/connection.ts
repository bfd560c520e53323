import { connect, type Socket } from "node:net";

export interface Answer {
  status: number;
  body: string;
}

/**
 * One keep-alive HTTP connection that uses little CPU of the load generator: a request is one write, one request is
 * sent at a time, and an answer is read by its `Content-Length`.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #host: string;
  #received = "";
  #settle: PromiseWithResolvers<Answer> | undefined;

  private constructor(socket: Socket, host: string) {
    this.#socket = socket;
    this.#host = host;
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.on("data", (chunk: string) => this.#read(chunk));
    socket.on("error", (error) => this.#settle?.reject(error));
    socket.on("close", () => this.#settle?.reject(new Error("the server closed the connection")));
  }

  static async open(url: string): Promise<Connection> {
    const { hostname, port, host } = new URL(url);
    const socket = connect(Number(port), hostname);
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new Connection(socket, host);
  }

  request(method: string, path: string, body = "", headers: Record<string, string> = {}): Promise<Answer> {
    this.#settle = Promise.withResolvers();
    const bytes = Buffer.byteLength(body);
    let head = `${method} ${path} HTTP/1.1\r\nHost: ${this.#host}\r\nContent-Type: application/json\r\n`;
    for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
    this.#socket.write(`${head}Content-Length: ${bytes}\r\n\r\n${body}`);
    return this.#settle.promise;
  }

  async post<T>(path: string, body: unknown): Promise<T> {
    const answer = await this.request("POST", path, JSON.stringify(body));
    if (answer.status !== 200) throw new Error(`POST ${path}: ${answer.status} ${answer.body}`);
    return JSON.parse(answer.body);
  }

  close(): void {
    this.#settle = undefined;
    this.#socket.destroy();
  }

  #read(chunk: string): void {
    this.#received += chunk;
    const end = this.#received.indexOf("\r\n\r\n");
    if (end < 0) return;
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(this.#received.slice(0, end + 2))?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return;
    const status = Number(this.#received.slice(9, 12));
    const body = Buffer.from(this.#received.slice(end + 4, end + 4 + length), "latin1").toString();
    this.#received = this.#received.slice(end + 4 + length);
    const settle = this.#settle;
    this.#settle = undefined;
    settle?.resolve({ status, body });
  }
}
