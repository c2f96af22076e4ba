// Plane geometry of shapes: what is wrong with them, cutting, moving, snapping. Points are [x, y] in fractions of the
// frame, y downwards. Everything here is plain data: no element of the page, no state.

const SAME = 0.002; // points nearer than that are one
const SMALLEST_AREA = 1e-5;

export const distance = ([ax, ay], [bx, by]) => Math.hypot(ax - bx, ay - by);
export const middle = ([ax, ay], [bx, by]) => [(ax + bx) / 2, (ay + by) / 2];
const cross = ([ax, ay], [bx, by], [cx, cy]) => (bx - ax) * (cy - ay) - (by - ay) * (cx - ax);
const clamp = (value) => Math.min(1, Math.max(0, value));
const rounded = (value) => Math.round(value * 1e4) / 1e4;

/** The edges of a shape, each as `[from, to]`; a zone is closed, a line is not. */
export function edges(points, isClosed) {
  const ends = isClosed ? points : points.slice(0, -1);
  return ends.map((point, number) => [point, points[(number + 1) % points.length]]);
}

/** The area of a polygon by its corners. */
export const area = (points) =>
  Math.abs(edges(points, true).reduce((sum, [[ax, ay], [bx, by]]) => sum + ax * by - bx * ay, 0)) / 2;

/** A point inside the bounds of a shape, for its name. */
export function centre(points) {
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  return [(Math.min(...xs) + Math.max(...xs)) / 2, (Math.min(...ys) + Math.max(...ys)) / 2];
}

/** Whether a point lies in a polygon, by the even-odd rule, as rules decide it. */
export function isInside([x, y], points) {
  let inside = false;
  for (const [[ax, ay], [bx, by]] of edges(points, true)) {
    if (ay > y !== by > y && x < ((y - ay) / (by - ay)) * (bx - ax) + ax) inside = !inside;
  }
  return inside;
}

/** Where two segments meet: `{at, share, other}` with the shares along both, or null. */
export function meeting([a, b], [c, d]) {
  const turn = (b[0] - a[0]) * (d[1] - c[1]) - (b[1] - a[1]) * (d[0] - c[0]);
  if (Math.abs(turn) < 1e-12) return null;
  const share = ((c[0] - a[0]) * (d[1] - c[1]) - (c[1] - a[1]) * (d[0] - c[0])) / turn;
  const other = ((c[0] - a[0]) * (b[1] - a[1]) - (c[1] - a[1]) * (b[0] - a[0])) / turn;
  if (share < 0 || share > 1 || other < 0 || other > 1) return null;
  return { at: [a[0] + share * (b[0] - a[0]), a[1] + share * (b[1] - a[1])], share, other };
}

/**
 * What is wrong with a shape, as a list of `{kind, text, values}`: `kind` is bad for what is refused and warn for what
 * is allowed and rarely meant; `text` is a key of the texts.
 */
export function faults(points, outline) {
  const found = [];
  const outside = points.findIndex((point) => point.some((value) => !(value >= 0 && value <= 1)));
  if (outside >= 0) found.push({ kind: "bad", text: "zones.faultOutside", values: { number: outside + 1 } });
  if (outline === "line") {
    if (points.length < 2) found.push({ kind: "bad", text: "zones.faultTwoPoints" });
    else if (distance(...points) < SAME) found.push({ kind: "bad", text: "zones.faultLength" });
    return found;
  }
  if (points.length < 3) return [...found, { kind: "bad", text: "zones.faultThreePoints" }];
  const same = edges(points, true).findIndex(([from, to]) => distance(from, to) < SAME);
  if (same >= 0) {
    const [from, to] = edges(points, true)[same];
    const kind = distance(from, to) === 0 ? "bad" : "warn";
    found.push({ kind, text: "zones.faultSame", values: { one: same + 1, other: ((same + 1) % points.length) + 1 } });
  }
  if (crossesItself(points)) found.push({ kind: "bad", text: "zones.faultCrosses" });
  else if (area(points) < SMALLEST_AREA) found.push({ kind: "bad", text: "zones.faultArea" });
  return found;
}

/** Whether edges of a polygon that are no neighbours meet. */
export function crossesItself(points) {
  const all = edges(points, true);
  return all.some((one, first) =>
    all.some((other, second) => {
      const apart = second - first;
      return apart > 1 && apart < all.length - 1 && meeting(one, other) !== null;
    }));
}

/**
 * Cut a polygon along a segment `[from, to]`: a list of polygons, or null when the cut does not pass through it from
 * edge to edge.
 */
export function cut(points, segment) {
  const met = edges(points, true)
    .map((edge, number) => ({ number, found: meeting(segment, edge) }))
    .filter(({ found }) => found)
    .map(({ number, found }) => ({ number, at: found.at.map(rounded), along: found.share, edge: found.other }))
    .sort((one, other) => one.along - other.along)
    .filter((one, number, all) => number === 0 || one.along - all[number - 1].along > 1e-6); // a corner is met twice
  const first = met.findIndex((one, number) => number + 1 < met.length && isInside(middle(one.at, met[number + 1].at), points));
  if (first < 0) return null;
  const [low, high] = met.slice(first, first + 2).sort((one, other) => one.number - other.number || one.edge - other.edge);
  const between = points.slice(low.number + 1, high.number + 1);
  const around = [...points.slice(high.number + 1), ...points.slice(0, low.number + 1)];
  const parts = [[low.at, ...between, high.at], [high.at, ...around, low.at]].map(withoutDoubles);
  if (parts.some((part) => part.length < 3 || area(part) < SMALLEST_AREA)) return null;
  return parts.flatMap((part) => cut(part, segment) ?? [part]);
}

const withoutDoubles = (points) =>
  points.filter((point, number) => distance(point, points[(number + points.length - 1) % points.length]) > 1e-6);

/** Points moved by a step, all of them, and only as far as none leaves the frame. */
export function moved(points, [dx, dy]) {
  const bounded = (step, axis) => {
    const values = points.map((point) => point[axis]);
    return Math.min(1 - Math.max(...values), Math.max(-Math.min(...values), step));
  };
  const [x, y] = [bounded(dx, 0), bounded(dy, 1)];
  return points.map((point) => [rounded(point[0] + x), rounded(point[1] + y)]);
}

/** A point within the frame, with as many digits as are of use. */
export const within = ([x, y]) => [rounded(clamp(x)), rounded(clamp(y))];

/**
 * A point drawn to what is near: corners of other shapes (`targets`), then the edges of the frame. `reach` is how near,
 * [x, y] in fractions.
 */
export function snapped(point, reach, targets = []) {
  const corner = targets.find((one) => Math.abs(one[0] - point[0]) < reach[0] && Math.abs(one[1] - point[1]) < reach[1]);
  if (corner) return corner;
  return within(point.map((value, axis) => (value < reach[axis] ? 0 : value > 1 - reach[axis] ? 1 : value)));
}

/** The unit normal of a line on the side that is `in`, on a frame of some size: to the right of who walks along it. */
export function inwards([from, to], [width, height]) {
  const along = [(to[0] - from[0]) * width, (to[1] - from[1]) * height];
  const length = Math.hypot(...along) || 1;
  return [-along[1] / length, along[0] / length];
}

/** Which edge of a shape is nearest to a point: the number that a point put there gets. */
export function placeFor(point, points, isClosed) {
  const apart = edges(points, isClosed).map(([a, b]) => {
    const along = [b[0] - a[0], b[1] - a[1]];
    const size = along[0] ** 2 + along[1] ** 2 || 1;
    const share = clamp(((point[0] - a[0]) * along[0] + (point[1] - a[1]) * along[1]) / size);
    return distance(point, [a[0] + share * along[0], a[1] + share * along[1]]);
  });
  return apart.indexOf(Math.min(...apart)) + 1;
}
