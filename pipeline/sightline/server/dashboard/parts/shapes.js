// Rules that are drawn, as shapes: where the points of a rule stand in its options, told by the schema of its element.

import { isInside, within } from "./geometry.js";

const resolved = (schema, root) => (schema?.$ref ? root.$defs[schema.$ref.split("/").pop()] : schema);
const isPoint = (schema) => schema?.type === "array" && schema.minItems === 2 && schema.maxItems === 2;
const isPoints = (schema) => schema?.type === "array" && isPoint(schema.items);
const given = (schema) => schema?.anyOf?.find((one) => one.type !== "null") ?? schema; // of an option that may be left out

/**
 * How the rules of an element are drawn: `{outline, options, corners, ends, element}`. `options` is the schema of a
 * rule, `corners` the option that holds a polygon, `ends` the two that hold the ends of a line, `element` the schema of
 * the step. Null when its rules have no points that can be drawn.
 */
export function drawingOf({ outline, json_schema: root }) {
  const options = resolved(root.additionalProperties, root);
  const properties = Object.entries(options?.properties ?? {});
  const corners = properties.find(([, one]) => isPoints(given(one)))?.[0] ?? null;
  const ends = outline === "line" ? properties.filter(([, one]) => isPoint(one)).map(([name]) => name) : [];
  if (outline === "line" ? ends.length !== 2 : !corners) return null;
  return { outline, options: { ...options, $defs: root.$defs }, corners, ends, element: root };
}

/** The points of a rule in fractions of the frame. `size` is that of the frame where the rule counts in pixels. */
export function pointsOf(options, drawing, size) {
  const points = drawing.outline === "line" ? drawing.ends.map((end) => options[end]) : options[drawing.corners];
  const known = (points ?? []).filter((point) => Array.isArray(point));
  return size ? known.map(([x, y]) => [x / size[0], y / size[1]]) : known;
}

/** The options of a rule with other points. */
export function withPoints(options, drawing, points, size) {
  const given = points.map((point) => (size ? point.map((value, axis) => Math.round(value * size[axis] * 10) / 10) : within(point)));
  if (drawing.outline === "line") return { ...options, [drawing.ends[0]]: given[0], [drawing.ends[1]]: given[1] };
  return { ...options, [drawing.corners]: given };
}

/** The options of a rule that are no points: what the form shows. */
export const formSchema = ({ options, corners, ends }) => ({
  ...options,
  properties: Object.fromEntries(Object.entries(options.properties).filter(([name]) => name !== corners && !ends.includes(name))),
});

const ANCHORS = {
  bottom: [0.5, 1], center: [0.5, 0.5], top: [0.5, 0], left: [0, 0.5], right: [1, 0.5],
  bottom_left: [0, 1], bottom_right: [1, 1], top_left: [0, 0], top_right: [1, 0],
};

/** How many of the objects that a Player tells of are inside a zone, as its rule would count them. */
export function countInside({ points, options }, { objects, frame }) {
  if (!frame) return 0;
  const hasTracks = objects.some((one) => one.track_id >= 0); // behind a branch, only the rules see them
  const [across, down] = ANCHORS[options.anchor] ?? ANCHORS.bottom;
  const isCounted = ({ label, box: [left, top, right, bottom], track_id: track }) =>
    (track >= 0 || !hasTracks) && (!options.classes || options.classes.includes(label)) &&
    isInside([(left + across * (right - left)) / frame[0], (top + down * (bottom - top)) / frame[1]], points);
  return objects.filter(isCounted).length;
}

/** A name that none of these has: `zone`, `zone 2`, `zone 3`. */
export function freeName(wanted, taken) {
  const stem = wanted.replace(/ \d+$/, "");
  if (!taken.includes(wanted)) return wanted;
  for (let number = 2; ; number += 1) if (!taken.includes(`${stem} ${number}`)) return `${stem} ${number}`;
}

/** Whether a step works on a stream: `streams` holds names or globs, as in YAML. */
export const worksOn = (streams, name) => !streams || streams.some((glob) => matches(glob, name));

function matches(glob, name) {
  const text = glob.replace(/[.+^${}()|\\]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", ".").replaceAll("[!", "[^");
  try {
    return new RegExp(`^${text}$`, "su").test(name);
  } catch {
    return glob === name; // a bracket that nothing closes
  }
}
