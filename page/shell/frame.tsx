import { type ReactNode, Suspense, useEffect, useLayoutEffect, useMemo, useRef, useSyncExternalStore } from "react";
import { HereProvider, Unhurried, useHere } from "../moment/here.tsx";
import { MomentBar } from "../moment/moment-bar.tsx";
import type { Opening } from "../moment/opening.ts";
import { useAnnounced } from "../parts/commands/announced.ts";
import { FloorChooser } from "../parts/floor-chooser.tsx";
import { keepFocus } from "../parts/focus/kept-focus.ts";
import { useWords } from "../words/words.tsx";
import { useAddress } from "./address.ts";
import { ConnectionLamp, ConnectionLine, FloorRefused } from "./connection.tsx";
import { DecisionAnnouncer } from "./decision-announcer.tsx";
import styles from "./frame.module.css";
import { KeyList, useKeySwitch, useKeys } from "./keys.tsx";
import { NewUserLine, SignIn, SignOut } from "./sign-in.tsx";
import type { SignInDemand } from "./sign-in-demand.ts";
import { useTheme } from "./theme.ts";
import { useHiddenTab } from "./use-hidden-tab.ts";
import { ViewBoundary } from "./view-boundary.tsx";
import { loadNextView, VIEWS, type View, viewOf } from "./views.ts";

interface FrameProps {
  /** What was asked of the server before the frame was made. */
  opening: Opening;
  signIn: SignInDemand;
  /** Who signed in in place of the former user, if the page was loaded anew for that. */
  newOwner: string | undefined;
}

/** The frame of every view: the bar above, the connection's state, the moment below, the sign-in. */
export function PageFrame({ opening, signIn, newOwner }: FrameProps) {
  const address = useAddress();
  const view = viewOf(address.view);
  return (
    <ViewBoundary>
      <HereProvider address={{ ...address, view: view.name }} opening={opening}>
        <Framed view={view} signIn={signIn} newOwner={newOwner} />
      </HereProvider>
    </ViewBoundary>
  );
}

function Framed({ view, signIn, newOwner }: Omit<FrameProps, "opening"> & { view: View }) {
  const { say } = useWords();
  const { status, linkTo, sessionId, floorId, floor, isLive, isFile } = useHere();
  const keys = useKeySwitch();
  useKeys(keys.areOn);
  useHiddenTab();
  useEffect(keepFocus, []);
  const logName = `${floorId} ${isFile}`;
  // The same element while nothing of it changes: then only its reads of the moment render it again.
  const shown = useMemo(() => {
    const Shown = view.show;
    return (
      <ViewBoundary key={`${view.name} ${logName}`}>
        <Suspense fallback={<p className={styles["loading"]}>{say("app.loading")}</p>}>
          <Shown />
        </Suspense>
      </ViewBoundary>
    );
  }, [view, logName, say]);
  const present = floor ? [floor.holder, ...floor.ducked, ...floor.paused] : [];
  const waiting = present.flatMap((each) => (each?.activity === "waiting" ? [each.id] : []));
  useEffect(() => {
    document.title = waiting.length > 0 ? `(${waiting.length}) Interlock` : "Interlock";
  }, [waiting.length]);
  const { isWanted, endedAt } = useSyncExternalStore(signIn.subscribe, () => signIn.view);
  useEffect(() => {
    if (status.status === "open") signIn.noteOpen();
  }, [signIn, status.status]);
  const isOpen = status.status === "open";
  useEffect(() => {
    if (isOpen) loadNextView();
  }, [isOpen]);
  const isRefused = view.isOfFloor && status.status === "refused" && floorId !== undefined;
  const tabs = useRef<HTMLElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: another view is another current tab.
  useEffect(() => {
    // On a narrow screen not all tabs fit: the tab of the view is always visible.
    tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [view]);
  return (
    <div className={styles["frame"]} data-stale={isLive && !isOpen}>
      <button type="button" className={styles["skip"]} onClick={() => document.getElementById("content")?.focus()}>
        {say("skip")}
      </button>
      <header className={styles["bar"]}>
        <span className={styles["name"]}>{say("app.name")}</span>
        <nav ref={tabs} className={styles["tabs"]} aria-label={say("app.views")}>
          {VIEWS.map(({ name, title }) => (
            <a
              key={name}
              href={linkTo(name, sessionId === undefined ? {} : { sessionId })}
              aria-current={name === view.name ? "page" : undefined}
            >
              {say(title)}
            </a>
          ))}
        </nav>
        <ViewBoundary of={logName}>
          <FloorChooser />
        </ViewBoundary>
        {waiting.length > 0 && (
          <a className={styles["waiting"]} href={linkTo("session", { sessionId: waiting[0]! })}>
            <span aria-hidden="true">? {waiting.length}</span>
            <span>{say("app.waiting", { count: waiting.length })}</span>
          </a>
        )}
        <ConnectionLamp state={status} isSignedOut={isWanted} />
        <LanguageSwitch />
        <ThemeSwitch />
        <KeyList {...keys} />
        <SignOut />
      </header>
      <div className={styles["lines"]}>
        <ConnectionLine state={status} />
        <UnknownMoment />
        {newOwner !== undefined && <NewUserLine newOwner={newOwner} />}
      </div>
      <Unhurried>
        {(isBehind) => <Content isBehind={isBehind}>{isRefused ? <FloorRefused state={status} /> : shown}</Content>}
      </Unhurried>
      <ViewBoundary of={logName}>
        <MomentBar />
      </ViewBoundary>
      <ViewBoundary key={floorId}>
        <DecisionAnnouncer />
      </ViewBoundary>
      <OutcomeAnnouncer />
      {isWanted && <SignIn endedAt={endedAt} onSignedIn={signIn.signedIn} />}
    </div>
  );
}

/** The view, marked as busy until it shows the chosen moment. */
function Content({ isBehind, children }: { isBehind: boolean; children: ReactNode }) {
  const { awaited } = useHere();
  const main = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    // Written to the element, because rendering it would begin the rendering of the awaited moment again.
    const mark = () => {
      main.current!.ariaBusy = String(isBehind || awaited.moment !== undefined);
    };
    mark();
    return awaited.subscribe(mark);
  }, [awaited, isBehind]);
  return (
    <main ref={main} className={styles["content"]} id="content" tabIndex={-1}>
      {children}
    </main>
  );
}

/** Says that the address has a moment that the log does not have. */
function UnknownMoment() {
  const { say } = useWords();
  const { unknownAt, isFile } = useHere();
  if (unknownAt === undefined) return undefined;
  return (
    <p role="alert" className={styles["line"]}>
      {say(isFile ? "moment.unknownend" : "moment.unknown", { at: unknownAt })}
    </p>
  );
}

/** Announces the outcomes of commands to screen readers: a control may be gone with its command. */
function OutcomeAnnouncer() {
  const announced = useAnnounced();
  return (
    <div className={styles["announced"]} aria-live="polite">
      {announced}
    </div>
  );
}

function LanguageSwitch() {
  const { say, language, setLanguage } = useWords();
  const other = language === "en" ? "zh" : "en";
  return (
    <button type="button" data-key="L" title={say("language.switch")} onClick={() => setLanguage(other)}>
      <span lang={other}>{say("language.other")}</span>
    </button>
  );
}

function ThemeSwitch() {
  const { say } = useWords();
  const { theme, setTheme } = useTheme();
  const other = theme === "light" ? "dark" : "light";
  return (
    <button
      type="button"
      data-key="T"
      aria-label={say(`theme.${other}`)}
      title={say(`theme.${other}`)}
      onClick={() => setTheme(other)}
    >
      <span aria-hidden="true">{theme === "light" ? "☾" : "☀"}</span>
    </button>
  );
}
