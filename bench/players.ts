import { Message, type MessageBus, sessionBus } from "@jellybrick/dbus-next";
import { Desktop } from "../test/support/desktops/desktop.ts";
import { Ear } from "./support/ear.ts";
import { quantile } from "./support/statistics.ts";
import type { Row } from "./support/table.ts";

/**
 * From the request of a call to the last audible sample of a real mpv, which `interlock players` pauses, compared with
 * the same mpv that is paused by hand over the session bus. Heard at the sink's monitor.
 */
const ROUNDS = 40;
const WARM_UP = 5;

/** The player's own controls, on a connection that is open. */
async function press(bus: MessageBus, member: "Pause" | "Play"): Promise<void> {
  const player = { destination: "org.mpris.MediaPlayer2.mpv", path: "/org/mpris/MediaPlayer2" };
  await bus.call(new Message({ ...player, interface: "org.mpris.MediaPlayer2.Player", member }));
}

export async function benchPlayers(): Promise<Row[]> {
  // PulseAudio renders far ahead into a null sink, so that a pause by hand has no time to compare with there.
  await using desktop = await Desktop.open("pipewire");
  const { client, env } = desktop;
  await using ear = await Ear.open(desktop.meter.sink, env);
  desktop.mpv();
  await desktop.hears("mpv plays");
  await ear.sound();
  const bus = sessionBus({ busAddress: env["DBUS_SESSION_BUS_ADDRESS"]! });
  const bridged: number[] = [];
  const byHand: number[] = [];
  const call = { agentId: "phone_agent", userId: "ann", activate: true };
  for (let round = 0; round < ROUNDS + WARM_UP; round += 1) {
    const pressed = performance.now();
    await press(bus, "Pause");
    const byHandMs = (await ear.silence()) - pressed;
    await press(bus, "Play");
    await ear.sound();

    const asked = performance.now();
    const { session } = await client.createSession(call);
    const bridgedMs = (await ear.silence()) - asked;
    await client.archiveSession(session.id);
    await ear.sound();
    if (round < WARM_UP) continue;
    bridged.push(bridgedMs);
    byHand.push(byHandMs);
  }
  bus.disconnect();
  const row = (what: string, share: number) => ({
    what: `request → last audible sample of mpv, compared with a pause by hand, ${what}`,
    ours: quantile(bridged, share),
    reference: quantile(byHand, share),
    unit: "ms",
  });
  return [{ ...row("median", 0.5), atMost: 4 }, row("p90", 0.9)];
}
