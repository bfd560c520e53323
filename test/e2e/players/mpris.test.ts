/** Players on a real session bus that answer late, speak meanwhile, or speak for others. */

import { join } from "node:path";
import { Message, type MessageBus, sessionBus, Variant } from "@jellybrick/dbus-next";
import { expect, onTestFinished, vi } from "vitest";
import { startSessionBus } from "../../../examples/car/session-bus.ts";
import { Mpris, type MprisPlayer } from "../../../src/cli/players/mpris.ts";
import { end } from "../../support/desktops/desktop.ts";
import { testWith } from "../../support/programs/suites.ts";
import { makeFolder } from "../../support/stores/sqlite-place.ts";

const PATH = "/org/mpris/MediaPlayer2";
const PROPERTIES = "org.freedesktop.DBus.Properties";
const PLAYER = "org.mpris.MediaPlayer2.Player";

/** A bus, and what the bridge sees of its players. */
async function openBus() {
  const { folder } = await makeFolder(onTestFinished);
  const socket = join(folder, "bus");
  const daemon = await startSessionBus(socket, process.env);
  onTestFinished(() => end(daemon));
  vi.stubEnv("DBUS_SESSION_BUS_ADDRESS", `unix:path=${socket}`);
  const seen: MprisPlayer[] = [];
  const gone: string[] = [];
  const mpris = await Mpris.open({ onPlayer: (player) => seen.push(player), onGone: (owner) => gone.push(owner) });
  onTestFinished(() => mpris.close());
  const connect = async (): Promise<MessageBus> => {
    const bus = sessionBus();
    (bus as unknown as NodeJS.EventEmitter).on("error", () => {});
    onTestFinished(() => bus.disconnect());
    await new Promise<void>((resolve) => (bus as unknown as NodeJS.EventEmitter).once("connect", () => resolve()));
    return bus;
  };
  /** A player that answers questions only when it is told to, with what it was when it was asked. */
  const player = async (name: string) => {
    const bus = await connect();
    const properties: Record<string, Variant> = { PlaybackStatus: new Variant("s", "Stopped") };
    const questions: { asked: Message; answer: Record<string, Variant> }[] = [];
    bus.addMethodHandler((asked) => {
      if (asked.member !== "GetAll") return false;
      questions.push({ asked, answer: { ...properties } });
      return true;
    });
    await bus.requestName(`org.mpris.MediaPlayer2.${name}`);
    return {
      bus,
      questions,
      say: (changed: Record<string, Variant>) => {
        Object.assign(properties, changed);
        bus.send(Message.newSignal(PATH, PROPERTIES, "PropertiesChanged", "sa{sv}as", [PLAYER, changed, []]));
      },
      answer: () => {
        for (const { asked, answer } of questions.splice(0)) {
          bus.send(Message.newMethodReturn(asked, "a{sv}", [answer]));
        }
      },
    };
  };
  return { seen, gone, connect, player };
}

const playing = { PlaybackStatus: new Variant("s", "Playing") };

testWith(["dbus"], "an answer that is older than what a player has said since changes nothing of it", async () => {
  const { seen, player } = await openBus();
  const late = await player("late");
  await expect.poll(() => late.questions).toHaveLength(2);
  late.say(playing);
  await expect.poll(() => seen.at(-1)?.playback).toBe("playing");
  late.answer();
  late.say({ CanPause: new Variant("b", false) });
  await expect.poll(() => seen.at(-1)?.canPause).toBe(false);
  expect(seen.map(({ playback }) => playback)).not.toContain("stopped");
});

testWith(["dbus"], "a player that does not answer in time is asked again, and its late answer counts", async () => {
  const { seen, player } = await openBus();
  const late = await player("late");
  await expect.poll(() => late.questions.length, { timeout: 15_000 }).toBeGreaterThan(2);
  expect(seen).toEqual([]);
  late.answer();
  await expect.poll(() => seen.at(-1)).toMatchObject({ playback: "stopped", pid: process.pid });
});

testWith(
  ["dbus"],
  "a signal counts only from whom it claims to be from, and in the form that it has to have",
  async () => {
    const { seen, gone, connect, player } = await openBus();
    const honest = await player("honest");
    await expect.poll(() => honest.questions).toHaveLength(2);
    honest.answer();
    honest.say(playing);
    await expect.poll(() => seen.at(-1)?.playback).toBe("playing");
    const { owner } = seen.at(-1)!;
    const forger = await connect();
    const bridge = { destination: "interlock.Players" };
    const left = ["org.mpris.MediaPlayer2.honest", owner, ""];
    const forged = Message.newSignal("/org/freedesktop/DBus", "org.freedesktop.DBus", "NameOwnerChanged", "sss", left);
    forger.send(Object.assign(forged, bridge));
    for (const [signature, body] of [
      ["s", [PLAYER]],
      ["sa{sv}as", [PLAYER, { PlaybackStatus: new Variant("i", 7), Metadata: new Variant("s", "none") }, []]],
    ] as const) {
      honest.bus.send(Message.newSignal(PATH, PROPERTIES, "PropertiesChanged", signature, [...body]));
    }
    const title = (text: string) => ({ Metadata: new Variant("a{sv}", { "xesam:title": new Variant("s", text) }) });
    honest.say(title("\u0007\u001b \u202e"));
    honest.say({ ...title("\ud83d\udca5 song\u0007\n"), CanPause: new Variant("b", false) });
    await expect.poll(() => seen.at(-1)?.canPause).toBe(false);
    expect(seen.at(-1)).toMatchObject({ playback: "playing", title: "💥 song" });
    expect(seen.some(({ title: text }) => text !== undefined && text !== "💥 song")).toBe(false);
    expect(gone).toEqual([]);
  },
);
