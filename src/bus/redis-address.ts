import type { RedisOptions as AnyOptions } from "ioredis";

/** Without `replyMapping`: replies keep the client library's default shapes. */
export type RedisOptions = Omit<AnyOptions, "replyMapping">;

/** How to reach a Redis server and log in to it. */
export interface RedisAddress {
  /** For logs and error messages: without user and password. */
  label: string;
  options: RedisOptions;
}

/** `scheme://user:password@hosts/rest?query`; special characters in user and password are percent-encoded. */
const FORM = /^(rediss?)(\+sentinel)?:\/\/(?:([^@/?#]*)@)?([^@/?#]+)(?:\/([^?#]*))?(?:\?([^#]*))?$/;
const HOST = /^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?$/;
const REDIS_PORT = 6_379;
const SENTINEL_PORT = 26_379;

const SENTINEL_NAMES = ["sentinel-username", "sentinel-password"];

/**
 * Read the addresses of independent servers. They are returned sorted, so that nodes that list the same servers in
 * different orders agree on which is which.
 *
 * @throws Error with a sentence for the operator
 */
export function readRedisAddresses(urls: readonly string[]): RedisAddress[] {
  const addresses = urls.map((url, index) => {
    try {
      return readRedisAddress(url);
    } catch (error) {
      throw new Error(
        `INTERLOCK_BUS: ${(error as Error).message}; address ${index + 1} of ${urls.length} violates this`,
      );
    }
  });
  return addresses.sort((one, other) => (one.label < other.label ? -1 : 1));
}

/** The labels of servers that everybody on their network may use: without a password, and not on this machine. */
export function unguardedServers(addresses: readonly RedisAddress[], isLoopback: (host: string) => boolean): string[] {
  const hostsOf = ({ host, sentinels }: RedisOptions) => sentinels?.map((each) => each.host) ?? [host];
  return addresses.flatMap(({ label, options }) => {
    const isHere = hostsOf(options).every((host) => host === undefined || isLoopback(host));
    return options.password === undefined && !isHere ? [label] : [];
  });
}

/**
 * Read an address: `redis://[user:password@]host[:port][/db]`, or `redis+sentinel://[user:password@]host[:port],host…/
 * master[/db][?sentinel-username=…&sentinel-password=…]`, where user and password belong to the Redis server and the
 * query parameters to the Sentinels. `rediss` instead of `redis` selects TLS, for the Sentinels too.
 *
 * @throws Error that says what is wrong, without the address: it may contain a password
 */
function readRedisAddress(text: string): RedisAddress {
  const [, scheme, sentinel, user, hosts = "", path = "", query = ""] = FORM.exec(text) ?? [];
  if (!scheme) throw new Error("an address has the form redis://user:password@host:port/db");
  const common: RedisOptions = { ...credentials(user), ...(scheme === "rediss" && { tls: {} }) };
  const steps = path === "" ? [] : path.split("/");
  const named = new URLSearchParams(query);
  const stray = [...named.keys()].find((name) => !sentinel || !SENTINEL_NAMES.includes(name));
  if (stray !== undefined) throw new Error(`an address has no parameter ${JSON.stringify(stray)}`);
  const parts: AddressParts = { scheme, hosts, steps, common };
  return sentinel ? behindSentinels(parts, named) : oneServer(parts);
}

/** An address without its credentials and its query. `steps` are those of its path. */
interface AddressParts {
  scheme: string;
  hosts: string;
  steps: readonly string[];
  common: RedisOptions;
}

function oneServer({ scheme, hosts, steps, common }: AddressParts): RedisAddress {
  if (steps.length > 1) throw new Error("only the number of a database may follow the host of an address");
  const { host, port } = readHost(hosts, REDIS_PORT);
  const db = readDatabase(steps[0]);
  return { label: `${scheme}://${hosts}${db > 0 ? `/${db}` : ""}`, options: { ...common, host, port, db } };
}

function behindSentinels({ scheme, hosts, steps, common }: AddressParts, named: URLSearchParams): RedisAddress {
  const [name, number, ...more] = steps;
  if (!name || more.length > 0)
    throw new Error("only the name of a master, and the number of a database, may follow the Sentinels of an address");
  const [username, password] = SENTINEL_NAMES.map((each) => named.get(each) ?? undefined);
  return {
    label: `${scheme}+sentinel://${hosts}/${name}`,
    options: {
      ...common,
      name: decode(name),
      db: readDatabase(number),
      sentinels: hosts.split(",").map((each) => readHost(each, SENTINEL_PORT)),
      ...(username !== undefined && { sentinelUsername: username }),
      ...(password !== undefined && { sentinelPassword: password }),
      ...(common.tls && { sentinelTLS: common.tls, enableTLSForSentinelMode: true }),
    },
  };
}

function credentials(text: string | undefined): Pick<RedisOptions, "username" | "password"> {
  if (!text) return {};
  const colon = text.indexOf(":");
  const username = decode(colon < 0 ? text : text.slice(0, colon));
  const password = colon < 0 ? "" : decode(text.slice(colon + 1));
  return { ...(username !== "" && { username }), ...(password !== "" && { password }) };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error("two hexadecimal digits must follow a % in an address");
  }
}

function readHost(text: string, usualPort: number): { host: string; port: number } {
  const [, host, port] = HOST.exec(text) ?? [];
  const number = port === undefined ? usualPort : Number(port);
  if (!host || number < 1 || number > 65_535) throw new Error("an address needs a host, and a port from 1 to 65535");
  return { host: host.replace(/^\[|\]$/g, ""), port: number };
}

function readDatabase(text: string | undefined): number {
  if (text === undefined || text === "") return 0;
  if (!/^\d{1,4}$/.test(text)) throw new Error("the database of an address must be a number");
  return Number(text);
}
