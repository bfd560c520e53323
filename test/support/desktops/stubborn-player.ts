/**
 * A player that cannot pause: it plays a file again and again, says so on the session bus, and connects again when the
 * bus has been away. `node stubborn-player.ts FILE`
 */
import { spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { Message, sessionBus, Variant } from "@jellybrick/dbus-next";

const PROPERTIES = {
  Identity: new Variant("s", "Stubborn"),
  PlaybackStatus: new Variant("s", "Playing"),
  CanPause: new Variant("b", false),
};
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
    if (asked.member !== "GetAll") return false;
    bus.send(Message.newMethodReturn(asked, "a{sv}", [PROPERTIES]));
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
