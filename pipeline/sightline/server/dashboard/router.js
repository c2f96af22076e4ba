// Where we are: `#/PIPELINE/SCREEN/REST...?query`. Going elsewhere is setting the hash, so that back and links work.

import { useEffect, useState } from "./lib.js";

function routeOf(hash) {
  const [where, query = ""] = hash.replace(/^#\/?/, "").split("?");
  const [pipeline = "", screen = "", ...rest] = where.split("/").map(decoded);
  return { pipeline, screen, rest, query: Object.fromEntries(new URLSearchParams(query)) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // somebody typed it
  }
}

/** The address of a screen of a pipeline; values of the query that are empty are left out. */
export function href(pipeline, screen, rest = [], query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const asked = new URLSearchParams(given).toString();
  return `#/${[pipeline, screen, ...rest].map(encodeURIComponent).join("/")}${asked && `?${asked}`}`;
}

/** Go to an address that `href` made; `replace` leaves no step for the way back. */
export function go(to, { replace = false } = {}) {
  if (replace) {
    history.replaceState(null, "", to);
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  } else {
    window.location.hash = to;
  }
}

/** The route: `{pipeline, screen, rest, query}`. */
export function useRoute() {
  const [route, setRoute] = useState(() => routeOf(window.location.hash));
  useEffect(() => {
    const look = () => setRoute(routeOf(window.location.hash));
    window.addEventListener("hashchange", look);
    return () => window.removeEventListener("hashchange", look);
  }, []);
  return route;
}
