export {
  InterlockProvider,
  useClient,
  useConnection,
  useFloor,
  useFloors,
  useLiveViews,
  useSession,
} from "./hooks.ts";
