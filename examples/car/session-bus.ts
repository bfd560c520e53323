import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rm, writeFile } from "node:fs/promises";

/** The settings of a session bus whose socket has a fixed name, so that it can be started again at its address. */
const configFor = (socket: string) => `<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:path=${socket}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
`;

/**
 * Start a session bus of its own, which players and their bridge share.
 *
 * @param socket the path of its socket; programs find it at `DBUS_SESSION_BUS_ADDRESS=unix:path=<socket>`
 * @returns its process, which accepts connections
 */
export async function startSessionBus(socket: string, env: NodeJS.ProcessEnv): Promise<ChildProcess> {
  await rm(socket, { force: true });
  const config = `${socket}.conf`;
  await writeFile(config, configFor(socket));
  const options = ["--nofork", "--nopidfile", "--nosyslog", "--print-address=1"];
  const bus = spawn("dbus-daemon", [`--config-file=${config}`, ...options], {
    env,
    stdio: ["ignore", "pipe", "ignore"],
  });
  await once(bus.stdout!, "data");
  bus.stdout!.resume();
  return bus;
}
