// The screens of a pipeline in the order of the menu. A screen is a module in `screens/` that is loaded when it is shown;
// its default export is a component that gets `{pipeline, rest, query}` of the route.

/**
 * One that is `under` another is not in the menu: links lead to it.
 * @type {{name: string, title?: string, under?: string, load: () => Promise<{default: Function}>}[]}
 */
export const SCREENS = [
  { name: "wall", title: "wall.screen", load: () => import("./screens/wall.js") },
  { name: "camera", under: "wall", load: () => import("./screens/camera.js") },
  { name: "events", title: "events.screen", load: () => import("./screens/events.js") },
  { name: "search", title: "search.screen", load: () => import("./screens/search.js") },
  { name: "zones", title: "zones.screen", load: () => import("./screens/zones.js") },
  { name: "analytics", title: "analytics.screen", load: () => import("./screens/analytics.js") },
  { name: "cameras", title: "cameras.screen", load: () => import("./screens/cameras.js") },
  { name: "graph", title: "graph.screen", load: () => import("./screens/graph.js") },
  { name: "configuration", title: "configuration.screen", load: () => import("./screens/configuration.js") },
  { name: "system", title: "system.screen", load: () => import("./screens/system.js") },
];
