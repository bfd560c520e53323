/** A way to get a program: a running server that the environment names, a container, or a file of this machine. */
export type Way = "url" | "container" | "machine";
/** In the order of preference. */
const WAYS: readonly Way[] = ["url", "container", "machine"];

interface ProgramEntry {
  /** Its display name. Programs of one name are counted together. */
  readonly title: string;
  /** The names of its files, all of which must be in one folder; or several such lists, of which one suffices. */
  readonly files: readonly (readonly string[])[];
  /** Debian's packages. None: `npm run setup:debian` installs it with npm. */
  readonly packages: readonly string[];
  /** The environment's variable with the URL of a running server, or with the path of the program. */
  readonly variable?: string;
  readonly isServer?: boolean;
}

/** @param files all of them, or the only one */
const program = (
  title: string,
  files: string | readonly string[],
  packages: readonly string[] = [title],
  rest: Partial<ProgramEntry> = {},
): ProgramEntry => ({ title, files: [[files].flat()], packages, ...rest });

/** Everything that tests start and that `npm ci` does not install. */
export const PROGRAMS = {
  postgres: program("PostgreSQL", ["initdb", "postgres"], ["postgresql"], {
    variable: "TEST_POSTGRES_URL",
    isServer: true,
  }),
  redis: program("Redis", "redis-server", ["redis-server"], { variable: "TEST_REDIS_URL", isServer: true }),
  pgDump: program("pg_dump", ["pg_dump", "pg_restore", "psql"], ["postgresql-client"]),
  chromium: {
    title: "Chromium",
    files: [["chromium"], ["chromium-browser"], ["google-chrome"]],
    packages: ["chromium"],
    variable: "TEST_CHROMIUM",
  },
  firefox: {
    title: "Firefox",
    files: [["firefox-esr"], ["firefox"]],
    packages: ["firefox-esr"],
    variable: "TEST_FIREFOX",
  },
  nginx: program("nginx", "nginx"),
  pgbouncer: program("PgBouncer", "pgbouncer", ["pgbouncer"]),
  promtool: program("promtool", "promtool", ["prometheus"]),
  prometheus: program("Prometheus", "prometheus", ["prometheus"]),
  curl: program("curl", "curl"),
  // A reader of lines that splits them at more characters than LF.
  requests: program(
    "Python's requests",
    ["python3", "../lib/python3/dist-packages/requests/__init__.py"],
    ["python3-requests"],
  ),
  // What tests of the Python client run it with, and what builds a player in C++.
  python: {
    title: "Python with httpx, pytest and mypy",
    files: [
      [
        "python3",
        "mypy",
        "../lib/python3/dist-packages/httpx/__init__.py",
        "../lib/python3/dist-packages/pytest/__init__.py",
      ],
    ],
    packages: ["python3-httpx", "python3-pytest", "python3-mypy", "mypy"],
  },
  cpp: program(
    "g++ with libcurl and nlohmann-json",
    ["g++", "curl-config", "../include/nlohmann/json.hpp"],
    ["g++", "libcurl4-openssl-dev", "nlohmann-json3-dev"],
  ),
  mosquitto: program(
    "Mosquitto",
    ["../sbin/mosquitto", "mosquitto_pub", "mosquitto_sub"],
    ["mosquitto", "mosquitto-clients"],
  ),
  sentinel: program("Redis Sentinel", "redis-sentinel", ["redis-sentinel"]),
  openssl: program("OpenSSL", "openssl", ["openssl"]),
  bash: program("bash", "bash"),
  systemd: program("systemd", "systemd-analyze"),
  prlimit: program("prlimit", "prlimit", ["util-linux"]),
  setpriv: program("setpriv", "setpriv", ["util-linux"]),
  coreutils: program("coreutils", ["mkfifo", "stty"]),
  script: program("script", "script", ["bsdutils"]),
  // What examples/car plays and hears with.
  mpv: program("mpv", "mpv"),
  pulseaudio: program("PulseAudio", "pulseaudio", ["pulseaudio"]),
  parec: program("PulseAudio", ["parec", "paplay"], ["pulseaudio-utils"]),
  espeak: program("espeak-ng", "espeak-ng"),
  flite: program("flite", "flite"),
  pocketsphinx: program("pocketsphinx", "pocketsphinx_continuous", ["pocketsphinx", "pocketsphinx-en-us"]),
  // A desktop with players.
  dbus: program("D-Bus", ["dbus-daemon", "dbus-send"], ["dbus", "dbus-bin"]),
  pipewire: program(
    "PipeWire",
    ["pipewire", "pipewire-pulse", "wireplumber", "pw-cli"],
    ["pipewire", "pipewire-pulse", "wireplumber", "pipewire-bin"],
  ),
  vlc: program("VLC", "vlc", ["vlc-bin", "vlc-plugin-base"]),
  mpvMpris: program("mpv-mpris", "../lib/mpv-mpris/mpris.so"),
  // Packages of npm, in folders of their own.
  node20: { title: "Node 20", files: [], packages: [], variable: "TEST_NODE20" },
  outsidePrograms: { title: "test/outside-programs", files: [], packages: [] },
  realAgents: { title: "test/real-agents", files: [], packages: [] },
} satisfies Record<string, ProgramEntry>;

export type Program = keyof typeof PROGRAMS;
export const entryOf = (name: Program): ProgramEntry => PROGRAMS[name];

/**
 * What a suite needs, and the ways in which it can use it: a suite that stops a server takes none that runs already.
 */
export interface Need {
  readonly program: Program;
  readonly ways: readonly Way[];
}

/** What there is of a program: a URL, an engine for its container, the path of its (first) file. */
export type Found = Readonly<Partial<Record<Program, Readonly<Partial<Record<Way, string>>>>>>;

/** A way for each need, in the order of the needs; or what is missing. */
export type Choice =
  | { readonly act: "run"; readonly ways: readonly { readonly way: Way; readonly at: string }[] }
  | { readonly act: "leave out" | "fail"; readonly missing: readonly Program[] };

/**
 * Decides whether a suite runs, before anything is started. Pure: the same needs on the same machine, the same choice.
 *
 * @param isCi whether a suite that cannot run is a failure
 */
export function choose(needs: readonly Need[], found: Found, isCi: boolean): Choice {
  const chosen = needs.map(({ program, ways }) => {
    const here = found[program] ?? {};
    const way = WAYS.find((each) => ways.includes(each) && here[each] !== undefined);
    return way && { way, at: here[way]! };
  });
  const missing = needs.filter((_, index) => chosen[index] === undefined).map(({ program }) => program);
  if (missing.length > 0) return { act: isCi ? "fail" : "leave out", missing };
  return { act: "run", ways: chosen.filter((each) => each !== undefined) };
}

export const titlesOf = (programs: readonly Program[]): string[] => [
  ...new Set(programs.map((each) => PROGRAMS[each].title)),
];

/** Debian's packages of programs. */
export const packagesOf = (programs: readonly Program[]): string[] => [
  ...new Set(programs.flatMap((each) => PROGRAMS[each].packages)),
];

export const INSTALL = "npm run setup:debian";

/**
 * The line at the end of a run.
 *
 * @param leftOut the missing programs of each suite that was left out
 * @returns undefined if none was
 */
export function leftOutLine(leftOut: readonly (readonly Program[])[]): string | undefined {
  if (leftOut.length === 0) return undefined;
  const counts = new Map<string, number>();
  for (const missing of leftOut) {
    for (const title of titlesOf(missing)) counts.set(title, (counts.get(title) ?? 0) + 1);
  }
  const most = [...counts].sort(([, one], [, other]) => other - one).map(([title, count]) => `${title} (${count})`);
  const suites = leftOut.length === 1 ? "1 suite was" : `${leftOut.length} suites were`;
  return `${suites} left out, for want of ${most.join(", ")}. On Debian, this installs all of them: ${INSTALL}`;
}
