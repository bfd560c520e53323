import type { lookup as lookUp } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import ipaddr from "ipaddr.js";

/** IPv6 addresses outside it are never public. */
const GLOBAL_6 = ipaddr.IPv6.parseCIDR("2000::/3");

/** Whether an address may be contacted: a public address, or one in a network that the operator lists. */
export function createAddressCheck(networks: readonly string[]): (address: string) => boolean {
  const listed = networks.map(parseNetwork);
  return (address) => {
    const plain = address.replace(/%.*$/, "");
    // ipaddr.js takes `::10.0.0.1`, which is reachable nowhere, for `::ffff:10.0.0.1`.
    if (isIP(plain) === 0 || /^::\d+\./.test(plain)) return false;
    const ip = ipaddr.process(plain);
    if (listed.some((network) => asIPv6(ip).match(network))) return true;
    return ip.range() === "unicast" && (ip.kind() === "ipv4" || ip.match(GLOBAL_6));
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

function parseNetwork(network: string): [ipaddr.IPv6, number] {
  const [address = "", bits] = network.split("/");
  const ip = ipaddr.parse(address);
  const outside = ip.kind() === "ipv4" ? 96 : 0;
  return [asIPv6(ip), bits === undefined ? 128 : outside + Number(bits)];
}

const asIPv6 = (ip: ipaddr.IPv4 | ipaddr.IPv6): ipaddr.IPv6 => ("octets" in ip ? ip.toIPv4MappedAddress() : ip);
