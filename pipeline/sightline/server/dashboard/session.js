// Who looks at the dashboard, and what they may do.

import { createContext, useContext } from "./lib.js";

const RANKS = ["viewer", "operator", "admin"];

/** `{name, role}`: who we are. */
export const Session = createContext({ name: "", role: "viewer" });
export const useSession = () => useContext(Session);

/** Whether we may do what needs a role: hide or disable the rest. */
export function useMay(role) {
  return RANKS.indexOf(useSession().role) >= RANKS.indexOf(role);
}
