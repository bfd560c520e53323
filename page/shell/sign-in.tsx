import { type FormEvent, useLayoutEffect, useRef, useState } from "react";
import { ClientError } from "../../src/client/client-error.ts";
import { useClient } from "../../src/react/hooks.ts";
import { clockOf } from "../moment/time-text.ts";
import { useAct } from "../parts/use-act.ts";
import { useWords } from "../words/words.tsx";
import { readOwner, writeOwner } from "./choices.ts";
import styles from "./frame.module.css";

interface SignInProps {
  endedAt: number | undefined;
  onSignedIn: (ownerId: string | undefined) => void;
}

/**
 * Asks for a token, over the page as it was. The token becomes a cookie that scripts cannot read; the page forgets it.
 * @param endedAt when the former sign-in ended, if there was one
 */
export function SignIn({ endedAt, onSignedIn }: SignInProps) {
  const { say, language } = useWords();
  const client = useClient();
  const dialog = useRef<HTMLDialogElement>(null);
  const [state, setState] = useState<"asks" | "busy" | "refused" | "failed">("asks");
  useLayoutEffect(() => {
    const shown = dialog.current;
    shown?.showModal();
    // Gives the focus back to the field that had it.
    return () => shown?.close();
  }, []);

  async function submit(event: FormEvent<HTMLFormElement>): Promise<void> {
    event.preventDefault();
    const token = String(new FormData(event.currentTarget).get("token") ?? "").trim();
    if (token === "") return;
    setState("busy");
    try {
      const { ownerId } = await client.signIn(token);
      writeOwner(ownerId);
      onSignedIn(ownerId);
    } catch (error) {
      const isRefused = error instanceof ClientError && error.status >= 400 && error.status < 500;
      setState(isRefused ? "refused" : "failed");
    }
  }

  return (
    <dialog
      ref={dialog}
      className={styles["dialog"]}
      aria-labelledby="sign-in"
      closedby="none"
      onCancel={(event) => event.preventDefault()}
    >
      <form className={styles["form"]} onSubmit={(event) => void submit(event)}>
        <h2 id="sign-in">{say(endedAt === undefined ? "signin.title" : "signin.again")}</h2>
        <p>{endedAt === undefined ? say("signin.why") : say("signin.ended", { time: clockOf(endedAt, language) })}</p>
        <label>
          {say("signin.token")}
          <input name="token" type="password" autoComplete="off" required maxLength={12_288} />
        </label>
        {(state === "refused" || state === "failed") && <p role="alert">{say(`signin.${state}`)}</p>}
        <button type="submit" disabled={state === "busy"}>
          {say(state === "busy" ? "signin.busy" : "signin.submit")}
        </button>
      </form>
    </dialog>
  );
}

/** Takes the cookie back, and begins anew. Shown in a browser that has signed in. */
export function SignOut() {
  const { say } = useWords();
  const client = useClient();
  const { act, refusal, isBusy } = useAct();
  if (readOwner() === undefined) return undefined;
  const leave = () =>
    act(async () => {
      await client.signOut();
      writeOwner(undefined);
      location.reload();
    });
  return (
    <>
      <button type="button" disabled={isBusy} onClick={() => void leave()}>
        {say("signout")}
      </button>
      {refusal && <span role="alert">{refusal.text}</span>}
    </>
  );
}

/** Says that the page is another user's now, until it is closed. */
export function NewUserLine({ newOwner }: { newOwner: string }) {
  const { say } = useWords();
  const [isOpen, setIsOpen] = useState(true);
  if (!isOpen) return undefined;
  return (
    <p className={styles["line"]} role="status">
      {say("signin.other", { name: newOwner })}{" "}
      <button type="button" onClick={() => setIsOpen(false)}>
        {say("close")}
      </button>
    </p>
  );
}
