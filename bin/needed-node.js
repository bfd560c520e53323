// Plain JavaScript that every Node can read: it is asked before anything newer is loaded.
const NEEDED = 24;

/** Why this Node cannot run Interlock; undefined if it can. */
export function faultOfNode(found = process.versions.node) {
  if (Number(found.split(".")[0]) >= NEEDED) return undefined;
  return (
    `needs Node ${NEEDED} or newer, and this is Node ${found}.\n` +
    `Install it from https://nodejs.org, or run it once: npx -p node@${NEEDED} -c "interlock serve"`
  );
}
