import { BlockList, isIP, isIPv6 } from "node:net";

/** Whether a text is an address or a network, as in 10.0.0.0/8. */
export function isNetwork(text: string): boolean {
  const [address = "", bits, ...rest] = text.split("/");
  const version = isIP(address);
  if (version === 0 || rest.length > 0) return false;
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128));
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

/** Whether an address or host name reaches only this machine. */
export function isLoopback(address: string): boolean {
  if (isIP(address) === 0) return address.toLowerCase() === "localhost";
  return loopback.check(address, isIPv6(address) ? "ipv6" : "ipv4");
}
