/**
 * A player that cannot pause: it plays a file again and again, says so on the session bus, and connects again when the
 * bus has been away. With `pauses` it says that it can, and that it has paused, as a browser does whose other tab plays
 * on. `node stubborn-player.ts FILE [pauses]`
 */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { Message, sessionBus, Variant } from "@jellybrick/dbus-next";

const pauses = process.argv[3] === "pauses";
const PROPERTIES = {
  Identity: new Variant("s", "Stubborn"),
  PlaybackStatus: new Variant("s", "Playing"),
  CanPause: new Variant("b", pauses),
};
const PATH = "/org/mpris/MediaPlayer2";
const OBEYED = new Map([
  ["Pause", "Paused"],
  ["Play", "Playing"],
]);
const AGAIN_MS = 200;

function play(): void {
  const sound = spawn("paplay", [process.argv[2]!], { stdio: "ignore" });
  const stop = () => sound.kill("SIGKILL");
  process.once("exit", stop);
  sound.once("exit", () => {
    process.off("exit", stop);
    play();
  });
}

async function appear(): Promise<void> {
  const bus = sessionBus();
  const gone = Promise.withResolvers<void>();
  const emitter = bus as unknown as NodeJS.EventEmitter & { _connection: { stream?: NodeJS.EventEmitter } };
  emitter.on("error", () => gone.resolve());
  bus.addMethodHandler((asked) => {
    const obeyed = pauses ? OBEYED.get(asked.member ?? "") : undefined;
    if (asked.member === "GetAll") bus.send(Message.newMethodReturn(asked, "a{sv}", [PROPERTIES]));
    else if (obeyed !== undefined) {
      PROPERTIES.PlaybackStatus = new Variant("s", obeyed);
      const said = ["org.mpris.MediaPlayer2.Player", { PlaybackStatus: PROPERTIES.PlaybackStatus }, []];
      const from = "org.freedesktop.DBus.Properties";
      bus.send(Message.newSignal(PATH, from, "PropertiesChanged", "sa{sv}as", said));
      bus.send(Message.newMethodReturn(asked, "", []));
    } else return false;
    return true;
  });
  emitter.on("connect", () => emitter._connection.stream?.on("close", () => gone.resolve()));
  await Promise.race([bus.requestName("org.mpris.MediaPlayer2.mpv.stubborn"), gone.promise]);
  await gone.promise;
}

process.once("SIGTERM", () => process.exit());
play();
for (;;) {
  await appear().catch(() => undefined);
  await sleep(AGAIN_MS);
}
