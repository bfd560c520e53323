import type { AgentView, Session } from "interlock/client";
import { useClient, useLiveViews, useSession } from "interlock/react";
import { useEffect, useState } from "react";
import { Conversation } from "./conversation.tsx";

interface Talk {
  agent: AgentView;
  sessionId: string;
}

/** One session with each agent, in every tab and after a reload the same ones, because their ids are the agents'. */
export function Chat({ user, onSignOut }: { user: string; onSignOut: () => void }) {
  const client = useClient();
  const [talks, setTalks] = useState<readonly Talk[]>();
  const [fault, setFault] = useState<string>();
  const [shownId, setShownId] = useState<string>();
  useHiddenTabs();
  useEffect(() => {
    const open = async () => {
      const { agents } = await client.listAgents();
      const make = async (agent: AgentView): Promise<Talk> => {
        const { session } = await client.createSession({ id: agent.id, agentId: agent.id, userId: user });
        return { agent, sessionId: session.id };
      };
      setTalks(await Promise.all(agents.map(make)));
    };
    open().catch((error: Error) => setFault(error.message));
  }, [client, user]);

  const shown = talks?.find(({ agent }) => agent.id === shownId) ?? talks?.[0];
  return (
    <div className="chat">
      <header>
        <h1>Old Town</h1>
        <span className="quiet">{user}</span>
        <button type="button" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      {fault && <p role="alert">{fault}</p>}
      <nav aria-label="Agents">
        {talks?.map((talk) => (
          <AgentButton
            key={talk.sessionId}
            talk={talk}
            isShown={talk === shown}
            onShow={() => setShownId(talk.agent.id)}
          />
        ))}
      </nav>
      {shown && <Conversation key={shown.sessionId} id={shown.sessionId} name={shown.agent.name} />}
    </div>
  );
}

function AgentButton({ talk, isShown, onShow }: { talk: Talk; isShown: boolean; onShow: () => void }) {
  const { session } = useSession(talk.sessionId);
  const { name, description } = talk.agent;
  return (
    <button type="button" aria-current={isShown} onClick={onShow}>
      <b>{name}</b>
      <small data-state={session && stateOf(session)}>{session ? stateOf(session) : "…"}</small>
      <span className="quiet">{description}</span>
    </button>
  );
}

/** What an agent does, in the words of this product. */
function stateOf({ state, activity, pausedBy }: Session): string {
  if (state === "paused" && activity === "running") return pausedBy === "preemption" ? "interrupted" : "paused";
  if (state === "archived") return "ended";
  if (activity === "waiting") return "asks you";
  return { idle: "ready", running: "writing", failed: "failed" }[activity];
}

/** A browser opens six connections to one server, for all tabs together, so a hidden tab gives up its streams. */
function useHiddenTabs(): void {
  const views = useLiveViews();
  useEffect(() => {
    const follow = () => (document.hidden ? views.suspend() : views.restart());
    document.addEventListener("visibilitychange", follow);
    return () => document.removeEventListener("visibilitychange", follow);
  }, [views]);
}
