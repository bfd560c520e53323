import { type Client, createClient } from "interlock/client";
import { InterlockProvider } from "interlock/react";
import { type FormEvent, StrictMode, useEffect, useMemo, useState } from "react";
import { createRoot } from "react-dom/client";
import { Chat } from "./chat.tsx";
import "./chat.css";
import { findToken, type SignedIn, signIn, signOut } from "./signed-in.ts";

/** A client that presents the user's token with each request; each stream opens with a ticket instead. */
function clientOf(baseUrl: string, onSignedOut: () => void): Client {
  const headers = async () => {
    const found = await findToken();
    if (found) return { Authorization: `Bearer ${found.token}` };
    onSignedOut();
    throw new Error("Please sign in.");
  };
  return createClient({ baseUrl, headers, streamsBy: "ticket" });
}

function App() {
  // Undefined: it is not known yet. Null: nobody.
  const [signedIn, setSignedIn] = useState<SignedIn | null>();
  const node = signedIn?.node;
  const client = useMemo(() => (node === undefined ? undefined : clientOf(node, () => setSignedIn(null))), [node]);
  const look = async () => setSignedIn((await findToken().catch(() => undefined)) ?? null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: once.
  useEffect(() => void look(), []);
  if (signedIn === undefined) return undefined;
  if (signedIn === null || !client) return <SignIn onSignedIn={() => void look()} />;
  const leave = async () => {
    await signOut();
    setSignedIn(null);
  };
  return (
    <InterlockProvider client={client}>
      <Chat user={signedIn.user} onSignOut={() => void leave()} />
    </InterlockProvider>
  );
}

function SignIn({ onSignedIn }: { onSignedIn: () => void }) {
  const [fault, setFault] = useState<string>();
  const submit = async (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const why = await signIn(String(form.get("user")), String(form.get("password")));
    setFault(why);
    if (why === undefined) onSignedIn();
  };
  return (
    <main className="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <h1>Old Town</h1>
        <p className="quiet">Your guide and your booking desk</p>
        <label>
          Name
          <input name="user" autoComplete="username" required />
        </label>
        <label>
          Password
          <input name="password" type="password" autoComplete="current-password" required />
        </label>
        {fault && <p role="alert">{fault}</p>}
        <button type="submit" className="primary">
          Sign in
        </button>
        <p className="quiet">ann · tulip, or bob · canal</p>
      </form>
    </main>
  );
}

createRoot(document.getElementById("app") as HTMLElement).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
