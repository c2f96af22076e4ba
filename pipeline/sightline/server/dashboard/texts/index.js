// All texts of the dashboard. A translation is a folder beside `en` with the same files, chosen here.

import { analytics } from "./en/analytics.js";
import { camera } from "./en/camera.js";
import { cameras } from "./en/cameras.js";
import { configuration } from "./en/configuration.js";
import { events } from "./en/events.js";
import { fields } from "./en/fields.js";
import { graph } from "./en/graph.js";
import { inspect } from "./en/inspect.js";
import { pipelines } from "./en/pipelines.js";
import { player } from "./en/player.js";
import { records } from "./en/records.js";
import { search } from "./en/search.js";
import { shell } from "./en/shell.js";
import { shortcuts } from "./en/shortcuts.js";
import { system } from "./en/system.js";
import { wall } from "./en/wall.js";
import { zones } from "./en/zones.js";

export const LANGUAGE = "en";
const TEXTS = { analytics, camera, cameras, configuration, events, fields, graph, inspect, pipelines, player, records, search, shell, shortcuts, system, wall, zones };

/** The text of a screen: `t("wall.lost", {name: "gate"})`; `{name}` in it stands for the value. */
export function t(key, values = {}) {
  const [part, name] = key.split(".");
  const text = TEXTS[part]?.[name];
  if (text === undefined) throw new Error(`there is no text ${key}`);
  return text.replace(/\{(\w+)\}/g, (_, field) => String(values[field] ?? ""));
}
