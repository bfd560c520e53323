import { isIP } from "node:net";

/** Whether a text is an address or a network, as in 10.0.0.0/8. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}
