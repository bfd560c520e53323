export { InterlockProvider, useClient, useLiveViews } from "./provider.ts";
export { useConnection } from "./use-connection.ts";
export { useFloor, useFloors } from "./use-floor.ts";
export { useSession } from "./use-session.ts";
