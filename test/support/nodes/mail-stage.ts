import { afterEach, beforeEach, expect } from "vitest";
import { type LocalFloors, Mailbox, type Serve } from "../../../src/cluster/mailbox.ts";
import type { AppError } from "../../../src/protocol/errors.ts";
import type { FloorId } from "../../../src/protocol/ids.ts";
import type { Envelope } from "../../../src/protocol/internal/command.ts";
import type { Reply } from "../../../src/protocol/internal/reply.ts";
import type { BusSubject } from "../../contract/bus/bus-contract.ts";
import { UnreliableBus } from "../networks/unreliable-bus.ts";
import { VirtualClock } from "../runner/virtual-clock.ts";

export const TOPIC = "floors";
export const DEADLINE_MS = 5_000;

/** A node: its mailbox, and the messages that it publishes. */
export interface MailNode {
  mailbox: Mailbox;
  bus: UnreliableBus;
  clock: VirtualClock;
}

/** For each test of a suite: an asking node and a serving node, over a bus that `open` opens. */
export function mailStage(open: () => Promise<BusSubject>) {
  let subject: BusSubject;
  let asker: MailNode;
  let server: MailNode;
  let nodes: MailNode[];
  let ids = 0;

  async function startNode(local?: LocalFloors["local"]): Promise<MailNode> {
    const bus = new UnreliableBus(await subject.connect());
    const clock = new VirtualClock();
    const newId = () => `id${++ids}`;
    const mailbox = new Mailbox({ bus, clock, newId, nodeId: newId(), topicOf: () => TOPIC });
    if (local) mailbox.serve({ local });
    await mailbox.start();
    const node = { mailbox, bus, clock };
    nodes.push(node);
    return node;
  }

  beforeEach(async () => {
    subject = await open();
    nodes = [];
    asker = await startNode();
    server = await startNode();
  });
  afterEach(async () => {
    for (const { mailbox } of nodes) mailbox.stop();
    await subject.close();
  });

  /** Move the clock of every node. */
  const pass = async (ms: number) => {
    await server.clock.advance(ms);
    await asker.clock.advance(ms);
  };

  const envelopeOf = (commandId = `command${++ids}`): Envelope => ({
    floorId: "u:ann" as FloorId,
    caller: "ann",
    commandId,
    bodyHash: "hash",
    deadline: asker.clock.now() + DEADLINE_MS,
    command: { type: "floor.what_if", agentId: "music" },
  });

  /** Serve at `server`: answer with the command's id, and record the commands. */
  async function serveAll(answer: Serve = async ({ commandId }) => replyOf(commandId)) {
    const served: Envelope[] = [];
    let wake = () => {};
    const subscription = await server.mailbox.serveTopic(TOPIC, (envelope) => {
      served.push(envelope);
      wake();
      return answer(envelope);
    });
    const until = async (count: number) => {
      while (served.length < count) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    };
    return { served, until, subscription };
  }

  const replyOf = (commandId: string): Reply => ({ ok: true, messageId: commandId as never });
  const failureOf = (asked: Promise<Reply>): Promise<AppError> =>
    asked.then(
      () => expect.unreachable("it was answered"),
      (error) => error,
    );

  return {
    /** The nodes of the running test. */
    get asker() {
      return asker;
    },
    get server() {
      return server;
    },
    startNode,
    pass,
    envelopeOf,
    serveAll,
    replyOf,
    failureOf,
  };
}
