import { ClientError } from "interlock/client";

/** Who is signed in, and where the node is. */
export interface SignedIn {
  user: string;
  node: string;
}

interface Token extends SignedIn {
  token: string;
  validMs: number;
}

let known: { token: Token; renewAt: number } | undefined;

/** The user's token for the node, renewed after half of its life. Undefined: nobody is signed in. */
export async function findToken(): Promise<Token | undefined> {
  if (known && Date.now() < known.renewAt) return known.token;
  // While the backend is away the client tries again, as it does while the node is.
  const response = await fetch("token").catch(() => undefined);
  if (response?.status === 204) return undefined;
  if (!response?.ok)
    throw new ClientError("unreachable", "The server does not answer.", { status: 0, retryable: true });
  const token = (await response.json()) as Token;
  known = { token, renewAt: Date.now() + token.validMs / 2 };
  return token;
}

/** @returns why the user may not sign in; undefined: they are signed in */
export async function signIn(user: string, password: string): Promise<string | undefined> {
  const response = await post("sign-in", { user, password });
  if (response?.ok) return undefined;
  return response ? ((await response.json()) as { error: string }).error : "The server does not answer.";
}

export async function signOut(): Promise<void> {
  await post("sign-out", {});
  known = undefined;
}

const post = (path: string, body: object) =>
  fetch(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) }).catch(
    () => undefined,
  );
