import type { Settings } from "../config/settings.ts";
import type { Gateway } from "./gateway.ts";

/**
 * Listen for requests.
 * @returns the URL of the node, with the real port in place of port 0
 * @throws Error with a sentence for the operator
 */
export async function listen(gateway: Gateway, settings: Settings): Promise<string> {
  const { host, port } = await gateway.listen(settings.host, settings.port).catch((error) => {
    throw new Error(whyNotListening(error, settings), { cause: error });
  });
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function whyNotListening(error: NodeJS.ErrnoException, { host, port }: Settings): string {
  switch (error.code) {
    case "EADDRINUSE":
      return `port ${port} of ${host} is in use: stop what listens there, or choose another with --port (0 picks a free one)`;
    case "EACCES":
      return `port ${port} may not be used by this user: choose one above 1023 with --port`;
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return `${host} is not an address of this machine: choose one with --host, such as 127.0.0.1`;
    default:
      return `cannot listen on ${host}:${port}: ${error.message}`;
  }
}
