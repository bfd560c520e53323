import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
// The block of docs/use/doors.md, which the test writes next to this file.
import { useAgent } from "./use-agent.ts";

/** A page as a user of `useChat` writes it; what it shows is read by a test. */
const id = new URLSearchParams(location.search).get("chat") ?? "chat";

function Chat() {
  const { messages, status, sendMessage, regenerate, addToolApprovalResponse } = useAgent(id);
  const asked = messages
    .at(-1)
    ?.parts.find((part) => part.type === "dynamic-tool" && part.state === "approval-requested");
  const say = (text: string) => () => void sendMessage({ text });
  return (
    <main>
      <output aria-label="status">{status}</output>
      <ul aria-label="messages">
        {messages.map(({ id: key, parts }) => (
          <li key={key}>{parts.map((part) => (part.type === "text" ? part.text : "")).join("")}</li>
        ))}
      </ul>
      {["hello", "nod", "count", "delete"].map((text) => (
        <button key={text} type="button" onClick={say(text)}>
          {text}
        </button>
      ))}
      <button type="button" onClick={() => void regenerate()}>
        again
      </button>
      <button type="button" onClick={() => void sendMessage({ text: "nod", messageId: messages[0]?.id })}>
        edit
      </button>
      {asked?.type === "dynamic-tool" && asked.state === "approval-requested" && (
        <button type="button" onClick={() => void addToolApprovalResponse({ id: asked.approval.id, approved: true })}>
          approve
        </button>
      )}
    </main>
  );
}

createRoot(document.getElementById("page") as HTMLElement).render(
  <StrictMode>
    <Chat />
  </StrictMode>,
);
