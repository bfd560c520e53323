/** How callers authenticate. */
export type AuthSetting =
  | "none"
  /** Tokens signed with a key of a published key set (JWKS). */
  | { kind: "jwks"; url: string }
  /** Tokens signed with a secret that this node shares. */
  | { kind: "secret"; file: string }
  /** Keys without an expiry, whose hashes are in a file. */
  | { kind: "keys"; file: string };

const FORMS = 'must be "none", jwt:<URL of a key set>, jwt:<file with a secret> or keys:<file>';

/** Parse the setting. Returns the fault as a string, which never repeats the text: a URL may contain a password. */
export function parseAuth(text: string): { value: AuthSetting } | string {
  if (text === "none") return { value: "none" };
  const [, kind, source = ""] = /^(jwt|keys):(.{1,4096})$/.exec(text) ?? [];
  if (kind === undefined || source.trim() !== source) return FORMS;
  if (kind === "keys") return { value: { kind, file: source } };
  if (!/^[a-z]+:\/\//i.test(source)) return { value: { kind: "secret", file: source } };
  const url = URL.parse(source);
  if (!url || !/^https?:$/.test(url.protocol)) return "must name a key set by http or https";
  if (url.username !== "" || url.password !== "") return "must name a public key set, by a URL without a password";
  return { value: { kind: "jwks", url: url.href } };
}
