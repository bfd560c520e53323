import type { AgentId } from "../../protocol/ids.ts";
import type { Answer, ToolCall } from "../../protocol/interaction.ts";
import { raceAborted } from "../../shared/waiting.ts";
import type { Approvals, CallTree, NewInteraction, RunControl, Turn } from "../agent.ts";
import type { ProgramRun } from "../process/program-run.ts";
import { controlWithin } from "../tools/tool-box.ts";
import { CANCELLED, Form, outcomeOf, ownOptionsOf, type Permission, questionsOf } from "./permission.ts";

/** The questions of a coding agent to the user in one turn. */
export class UserQuestions {
  readonly #run: ProgramRun;
  readonly #control: RunControl;
  readonly #agentId: AgentId;
  readonly #approvals: Approvals;
  #open = 0;
  readonly #replies: string[] = [];
  /** Whether the user rejected a call since this was last reset. */
  wasRejected = false;

  constructor(
    agentId: AgentId,
    about: { run: ProgramRun; turn: Turn & { readonly tree: CallTree }; control: RunControl },
  ) {
    const { run, turn, control } = about;
    this.#run = run;
    this.#control = control;
    this.#agentId = agentId;
    this.#approvals = turn.tree.approvals;
  }

  get isWaiting(): boolean {
    return this.#open > 0;
  }

  /** The user's reasons for rejections since the last call. */
  drainReplies(): string[] {
    return this.#replies.splice(0);
  }

  /**
   * Ask the user to confirm a tool call. An approval for the rest of the session is kept by the agent and the name of
   * the tool: the agent chooses the name, which must approve neither a tool of Interlock nor one of another agent. A
   * permission is granted when the run may continue, because it starts a tool.
   *
   * @param cancelled withdraws the question. Then this rejects with the signal's reason, which answers the request
   */
  async permit(permission: Permission, toolCall: ToolCall, cancelled: AbortSignal) {
    const approves = `acp:${this.#agentId}/${toolCall.function.name}`;
    const signal = AbortSignal.any([this.#control.signal, cancelled]);
    const askUser = (interaction: NewInteraction) => this.#askUser(interaction, cancelled);
    // It also waits while the user is asked about another call of the tool.
    this.#open += 1;
    try {
      const options = ownOptionsOf(permission, this.#run.redactor.text);
      const asked = { toolCall, isSensitive: true, approves, ...(options && { options }) };
      const verdict = await this.#approvals.askUser(asked, { signal, askUser });
      if (verdict.isApproved) {
        // Where the user approved the tool before, no question has waited for the call's part.
        await raceAborted(signal, () => this.#run.items.consumed());
        await controlWithin(this.#control, signal).untilMayAct();
        return outcomeOf(permission, true, verdict.choice);
      }
      this.wasRejected = true;
      if (verdict.reason) this.#replies.push(verdict.reason);
      return outcomeOf(permission, false);
    } catch {
      cancelled.throwIfAborted();
      return CANCELLED;
    } finally {
      this.#open -= 1;
      this.#run.noteSign();
    }
  }

  /** Ask the questions of a form, one after the other. `cancelled`: as for `permit`. */
  async fill(params: unknown, cancelled: AbortSignal) {
    const form = Form.safeParse(params).data;
    if (!form) return { action: "decline" };
    const content: Record<string, unknown> = {};
    try {
      for (const question of questionsOf(form, this.#run.redactor.text)) {
        const answer = await this.#askUser(question.interaction, cancelled);
        if (answer.kind !== "question" || answer.cancelled) return { action: "decline" };
        Object.assign(content, question.fill(answer));
      }
      return { action: "accept", content };
    } catch {
      cancelled.throwIfAborted();
      return { action: "cancel" };
    }
  }

  /**
   * Ask after all earlier parts were reported, so not while the run is held. Rejects when the run or `cancelled` ends
   * it.
   */
  async #askUser(interaction: NewInteraction, cancelled: AbortSignal): Promise<Answer> {
    this.#open += 1;
    try {
      // The question ends the messages before it.
      for (const part of this.#run.drainWaiting()) this.#run.items.push(part, 64);
      await raceAborted(cancelled, () => this.#run.items.consumed());
      return await this.#control.askUser(interaction, cancelled);
    } finally {
      this.#open -= 1;
      this.#run.noteSign();
    }
  }
}
