import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { createClient } from "../../../../src/client/interlock-client.ts";
import { InterlockProvider, useConnection, useFloor, useFloors, useSession } from "../../../../src/react/react.ts";

/** A page as a user of `interlock/react` writes it; what it shows is read by a test. */
const [sessionId = "", floorId = "", playedId = ""] = new URLSearchParams(location.search).getAll("id");

function Chat() {
  const { messages, session, live } = useSession(sessionId);
  return (
    <section aria-label="chat">
      <output>{session?.state}</output>
      {messages.map(({ id, content }) => (
        <p key={id}>{content}</p>
      ))}
      <button type="button" onClick={() => void live.send("hello")}>
        Say hello
      </button>
    </section>
  );
}

function Floor({ label }: { label: string }) {
  const { floor } = useFloor(floorId);
  return <section aria-label={label}>{floor?.holder?.agentId ?? "nobody"}</section>;
}

/** A program that plays its session itself: it sends nothing but what the hook sends. */
function Player() {
  const { session } = useSession(playedId, { isParticipant: true });
  return <section aria-label="player">{session?.state}</section>;
}

function Connection() {
  const { status, agents } = useConnection();
  return (
    <section aria-label="connection">
      {status}: {agents.map(({ id }) => id).join(" ")}
    </section>
  );
}

function Floors() {
  const floor = useFloors().floors.find((each) => each.floorId === floorId);
  return <section aria-label="floors">{floor?.state ?? "unknown"}</section>;
}

const client = createClient({ baseUrl: location.origin });
createRoot(document.getElementById("page") as HTMLElement).render(
  <StrictMode>
    <InterlockProvider client={client}>
      <Chat />
      <Floor label="floor" />
      <Floor label="the same floor" />
      <Floors />
      <Player />
      <Connection />
    </InterlockProvider>
  </StrictMode>,
);
