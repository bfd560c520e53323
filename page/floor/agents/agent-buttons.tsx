import { useState } from "react";
import type { AgentView } from "../../../src/client/answers.ts";
import { useClient } from "../../../src/react/hooks.ts";
import { useHere } from "../../moment/here.tsx";
import { Outcome } from "../../parts/commands/outcome.tsx";
import { userOfFloor } from "../../parts/floor-name.ts";
import { useMedia } from "../../parts/screen/use-media.ts";
import { useAct } from "../../parts/use-act.ts";
import { failureText } from "../../words/failure-text.ts";
import { useWords } from "../../words/words.tsx";
import { DecisionText } from "../decisions.tsx";
import floorStyles from "../floor.module.css";
import { AgentButton } from "./agent-button.tsx";
import styles from "./agents.module.css";
import { type Considered, useWhatIf } from "./use-what-if.ts";

const HINT = "whatif-hint";

/**
 * A button for each agent of the catalogue. A press requests the floor; hovering shows the result of a request. Fingers
 * do not hover: for them there is a switch, with which a first press shows the result.
 */
export function AgentButtons(considered: Considered) {
  const { say } = useWords();
  const client = useClient();
  const { agents, floorId = "", floor, isLive } = useHere();
  const lastCommand = useAct();
  const { act, isBusy } = lastCommand;
  const { whatIf } = considered;
  const { consider, considerNow, leave, leaveSoon, stay } = useWhatIf(considered);
  const isTouched = useMedia("(any-pointer: coarse)");
  const [isSwitchedOn, setSwitchedOn] = useState(false);
  const canStart = isLive && userOfFloor(floorId) !== undefined;
  const isPreviewing = isTouched && isSwitchedOn;

  // A touch screen has its hint beside the switch until that is on.
  const hasHint = canStart && (isPreviewing || !isTouched) && !whatIf && !lastCommand.refusal && !lastCommand.isLate;

  const start = ({ id: agentId, workspaceId }: AgentView) => {
    leave();
    const where = { ...userOfFloor(floorId), ...(workspaceId !== undefined && { workspaceId }) };
    void act(() => client.createSession({ agentId, ...where, activate: true }));
  };
  const press = (agent: AgentView) => {
    if (isPreviewing && whatIf?.agentId !== agent.id) considerNow(agent);
    else start(agent);
  };

  return (
    <section className={floorStyles["agents"]} aria-labelledby="agents">
      <h2 id="agents">{say("agents.title")}</h2>
      {isTouched && agents.length > 0 && (
        <div className={styles["preview"]}>
          <button
            type="button"
            disabled={!canStart}
            aria-pressed={isPreviewing}
            onClick={() => {
              leave();
              setSwitchedOn(!isSwitchedOn);
            }}
          >
            {say("whatif.title")}
          </button>
          <p className={floorStyles["quiet"]} id={HINT} hidden={isPreviewing}>
            {say(isPreviewing ? "whatif.on" : "whatif.off")}
          </p>
        </div>
      )}
      {agents.length === 0 && <p className={floorStyles["quiet"]}>{say(floor ? "agents.empty" : "agents.loading")}</p>}
      <ul className={styles["list"]} data-preview={isPreviewing}>
        {agents.map((agent) => (
          <li key={agent.id}>
            <AgentButton
              agent={agent}
              disabled={!canStart}
              isBusy={isBusy}
              isConsidered={whatIf?.agentId === agent.id}
              isPreviewing={isPreviewing}
              hintId={HINT}
              onConsider={() => consider(agent)}
              onLeave={leaveSoon}
              onPress={() => press(agent)}
            />
          </li>
        ))}
      </ul>

      <section
        className={styles["answer"]}
        data-preview={isPreviewing}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls has to be reachable with the keyboard.
        tabIndex={0}
        aria-label={say("whatif.answer")}
        aria-live="polite"
        onPointerEnter={stay}
        onPointerLeave={({ pointerType }) => pointerType !== "touch" && leaveSoon()}
        onFocus={stay}
        onBlur={leaveSoon}
      >
        {whatIf && (
          <p>
            <b>{say("whatif.title")}</b> {whatIf.decision && <DecisionText decision={whatIf.decision} isWhatIf />}
            {whatIf.refused && failureText({ code: whatIf.refused.errorCode, message: whatIf.refused.error }, say)}
          </p>
        )}
        {!whatIf && <Outcome of={lastCommand} />}
        {hasHint && <p className={floorStyles["quiet"]}>{say(isPreviewing ? "whatif.on" : "whatif.point")}</p>}
      </section>
    </section>
  );
}
