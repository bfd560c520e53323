import { normalizeIP } from "@fastify/rate-limit";

/** The key that counts as one address: an IPv4 address, or the /64 of an IPv6 address, which one household has. */
export function networkOf(address: string | undefined): string {
  return address === undefined ? "" : normalizeIP(address);
}
