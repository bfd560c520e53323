import type { lookup as lookUp } from "node:dns";
import { BlockList, isIP, type LookupFunction } from "node:net";

/** Addresses outside the public Internet, from IANA's registries of special-purpose addresses. */
const SPECIAL = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
/** IPv6 addresses outside 2000::/3 are never public. These ranges inside it are special, or contain IPv4 addresses. */
const SPECIAL_6 = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"];

const special = listOf([...SPECIAL, ...SPECIAL_6]);
const global6 = listOf(["2000::/3"]);

/** Whether an address may be contacted: a public address, or one in a network that the operator lists. */
export function createAddressCheck(networks: readonly string[]): (address: string) => boolean {
  const listed = listOf(networks);
  return (address) => {
    const plain = unmapped(address);
    const version = isIP(plain);
    if (version === 0) return false;
    const family = version === 4 ? "ipv4" : "ipv6";
    if (listed.check(plain, family)) return true;
    return !special.check(plain, family) && (version === 4 || global6.check(plain, "ipv6"));
  };
}

/**
 * A name's resolution that refuses the name if one of its addresses may not be contacted. The connection goes to the
 * address that was checked, so a name that resolves to another one later gains nothing. An address in place of a name
 * is not resolved: check it before.
 */
export function guardLookup(
  mayReach: (address: string) => boolean,
  lookup: typeof lookUp,
  refusalOf: (host: string) => Error,
): LookupFunction {
  return (host, { family = 0 }, answer) => {
    lookup(host, { all: true, family: family === "IPv4" ? 4 : family === "IPv6" ? 6 : family }, (error, addresses) => {
      if (error) return answer(error, []);
      if (addresses.some(({ address }) => !mayReach(address))) return answer(refusalOf(host), []);
      answer(null, addresses);
    });
  };
}

function listOf(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = "", bits] = network.split("/");
    const version = isIP(address);
    const prefix = bits === undefined ? (version === 6 ? 128 : 32) : Number(bits);
    list.addSubnet(address, prefix, version === 6 ? "ipv6" : "ipv4");
  }
  return list;
}

/** `::ffff:10.0.0.1` and `::ffff:a00:1` are 10.0.0.1. */
function unmapped(address: string): string {
  const plain = address.replace(/%.*$/, "");
  if (isIP(plain) !== 6) return plain;
  const { hostname } = new URL(`http://[${plain}]/`);
  const [, high, low] = /^\[::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})\]$/.exec(hostname) ?? [];
  if (high === undefined || low === undefined) return plain;
  const [first, second] = [Number.parseInt(high, 16), Number.parseInt(low, 16)];
  return [first >> 8, first & 255, second >> 8, second & 255].join(".");
}
