import { parse } from "yaml";
import { type JudgedCatalog, lengthOf } from "./judged-catalog.ts";
import { LogJudge } from "./log-judge.ts";
import { withAgent } from "./random-catalog.ts";
import { WalkedFloor } from "./walked-floor.ts";

export interface ToldStep {
  readonly at?: string;
  readonly after?: string;
  readonly asks?: string;
  readonly as?: string;
  readonly says?: string;
  readonly for?: string;
  readonly answers?: string;
  readonly fails?: boolean;
  readonly cancels?: string;
  readonly resumes?: string;
  readonly pauses?: string;
  readonly ends?: string;
  readonly dies?: string;
  readonly set?: string;
  readonly clear?: string;
  readonly disable?: string;
  readonly enable?: string;
  readonly clock?: string;
}

/** Play a story of `interlock prove` on a floor, without the code that plays scripts, and judge its log. */
export function playStory(script: string, catalog: JudgedCatalog): { judge: LogJudge; floor: WalkedFloor } {
  const { day, steps } = parse(script) as { day: string; steps: ToldStep[] };
  const judge = new LogJudge(catalog);
  const floor = new WalkedFloor(catalog, Date.parse(`${day}T${steps[0]!.at}:00Z`), (events) => judge.take(events));
  for (const step of steps) {
    if (step.after !== undefined) floor.live(lengthOf(step.after));
    carryOut(step, floor, judge, catalog);
  }
  judge.end(floor.now);
  return { judge, floor };
}

function carryOut(step: ToldStep, floor: WalkedFloor, judge: LogJudge, catalog: JudgedCatalog): void {
  const { asks, says, answers, cancels, resumes, pauses, ends, dies, set, clear, disable, enable, clock } = step;
  if (asks !== undefined) floor.start(step.as ?? asks, asks);
  else if (says !== undefined) {
    const isThere = step.as === undefined && floor.living.some(({ id }) => id === says);
    floor.say(step.as ?? says, isThere ? undefined : says);
  } else if (answers !== undefined) floor.answer(answers, step.fails === true);
  else if (cancels !== undefined) {
    if (!floor.cancel(cancels)) throw new Error(`${cancels} has no turn`);
  } else if (resumes !== undefined) floor.wake(resumes);
  else if (pauses !== undefined) floor.on(pauses, "pause");
  else if (ends !== undefined) floor.on(ends, "archive");
  else if (dies !== undefined) floor.die(dies);
  else if (set !== undefined) floor.ask({ type: "floor.patch_flags", flags: { [set]: true } });
  else if (clear !== undefined) floor.ask({ type: "floor.patch_flags", flags: { [clear]: false } });
  else if (clock !== undefined) {
    judge.setClock();
    floor.setClock(Date.parse(`${clock.replace(" ", "T")}:00Z`));
  } else if (disable !== undefined || enable !== undefined) {
    const next = disable === undefined ? catalog : withAgent(catalog, disable, false);
    judge.use(next);
    floor.use(next);
  }
}
