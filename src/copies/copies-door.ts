import type { Door, GatewayContext } from "../gateway/gateway.ts";
import type { Copies } from "./copies.ts";
import { exportRoutes } from "./export-routes.ts";
import { forkRoutes } from "./fork-routes.ts";
import { findPoint } from "./rollback-points.ts";
import { userExportRoutes } from "./user-export.ts";

/** Copies, imports and exports, as a gateway serves them. */
export function copiesDoor(gateway: GatewayContext, copies: Copies): Door {
  const context = { ...gateway, copies };
  return {
    addRoutes: (app) => {
      forkRoutes(app, context);
      exportRoutes(app, context);
      userExportRoutes(app, context);
    },
    rollBack: (identity, id, messageIndex) =>
      copies.rollBack(identity, id, (sessions, source) => findPoint(sessions, source, messageIndex)),
  };
}
