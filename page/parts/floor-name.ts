/** A floor's id as text for people: `u:alice/driver` is *alice · driver*. A text that is not an id stays as it is. */
export function floorName(id: string): string {
  const [, kind, name = id] = /^([us]):(.*)$/s.exec(id) ?? [];
  if (kind === "s") return name;
  return name.split("/").map(decode).join(" · ");
}

/** The user of a floor; a session without a user has a floor that no other session can join. */
export function userOfFloor(id: string): { userId: string; zone?: string } | undefined {
  if (!id.startsWith("u:")) return undefined;
  const [userId = "", zone] = id.slice(2).split("/").map(decode);
  return { userId, ...(zone !== undefined && { zone }) };
}

/** The server's id of the floor of a user and a zone. */
export function floorIdOf(userId: string, zone: string): string {
  return `u:${encodeURIComponent(userId)}${zone === "" ? "" : `/${encodeURIComponent(zone)}`}`;
}

/** A typed address may not be a valid encoding. */
export function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
