// Overlays: boxes, labels, the ways of tracks, masks, keypoints, lines and zones with their counts.

const PALETTE = [
  [230, 159, 0], [86, 180, 233], [0, 190, 140], [240, 228, 66], [70, 130, 255], [238, 102, 60],
  [226, 130, 190], [170, 221, 60], [255, 170, 160], [150, 110, 230], [60, 220, 220], [210, 60, 120],
]; // as `draw` has them
const LINE = [255, 214, 10];
const ZONE = [64, 200, 255];
const BODY = [
  [15, 13], [13, 11], [16, 14], [14, 12], [11, 12], [5, 11], [6, 12], [5, 6], [5, 7], [6, 8], [7, 9], [8, 10],
  [1, 2], [0, 1], [0, 2], [1, 3], [2, 4], [3, 5], [4, 6],
];
const SURE = 0.3; // keypoints below are not drawn
const SMALL = 480; // width in CSS pixels below which labels are only names
const LONGEST = 32; // characters of a label or name
const TRAIL_TICKS = 2 * 90_000;

const css = ([red, green, blue], opacity = 1) => `rgb(${red} ${green} ${blue} / ${opacity})`;
export const colorOf = (number) => PALETTE[((number % PALETTE.length) + PALETTE.length) % PALETTE.length];

/** Where tracks were in the last two seconds: the middles of the lower edges of their boxes. */
export class Trails {
  constructor() {
    this.tracks = new Map();
    this.last = -Infinity;
  }

  add({ ticks, objects }) {
    if (ticks === this.last) return;
    if (Math.abs(ticks - this.last) > TRAIL_TICKS) this.tracks.clear();
    this.last = ticks;
    for (const { track_id: id, box } of objects) {
      if (!(id >= 0)) continue;
      if (!this.tracks.has(id)) this.tracks.set(id, []);
      this.tracks.get(id).push([ticks, (box[0] + box[2]) / 2, box[3]]);
    }
    for (const [id, points] of this.tracks) {
      while (points.length && ticks - points[0][0] > TRAIL_TICKS) points.shift();
      if (!points.length) this.tracks.delete(id);
    }
  }

  of(id) {
    return this.tracks.get(id) ?? [];
  }
}

/** Draw what is known of a frame over the image at `place`. */
export function drawOverlay(context, about, place, overlays, trails) {
  context.save();
  context.beginPath();
  context.rect(place.left, place.top, place.width, place.height);
  context.clip();
  const scale = { x: place.width / about.size[0], y: place.height / about.size[1] };
  const at = (x, y) => [place.left + x * scale.x, place.top + y * scale.y];
  const pen = { context, place, at, line: Math.max(1.5, place.height / 300) * Math.min(place.scale, 2), unit: place.scale };
  pen.isSmall = place.width / place.scale < SMALL;
  pen.text = Math.min(Math.max(pen.isSmall ? 10 : 11, place.height / place.scale / 32), 18) * place.scale;
  pen.taken = [];
  context.lineJoin = context.lineCap = "round";
  context.textBaseline = "middle";
  context.font = `600 ${pen.text}px system-ui, sans-serif`;
  const colors = about.objects.map((_, index) => colorOf(about.colors?.[index] ?? 0));
  if (overlays.masks) about.objects.forEach((one, index) => one.mask && drawMask(pen, one.mask, colors[index], scale));
  if (overlays.zones) about.shapes.forEach((shape) => drawShape(pen, shape));
  if (overlays.tracks) about.objects.forEach((one, index) => drawTrail(pen, trails.of(one.track_id), colors[index]));
  about.objects.forEach((one, index) => {
    if (overlays.boxes) drawBox(pen, one, colors[index]);
    if (overlays.boxes && one.keypoints) drawKeypoints(pen, one.keypoints, colors[index]);
  });
  if (overlays.counts) about.shapes.forEach((shape) => drawCounts(pen, shape));
  if (!overlays.labels) return context.restore();
  const largestFirst = [...about.objects.keys()].sort((one, other) => areaOf(about.objects[other]) - areaOf(about.objects[one]));
  for (const index of largestFirst) drawLabel(pen, about.objects[index], colors[index], overlays.tracks);
  return context.restore();
}

const areaOf = ({ box: [left, top, right, bottom] }) => (right - left) * (bottom - top);

function trace(context, points, closed) {
  context.beginPath();
  points.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  if (closed) context.closePath();
}

function stroke(context, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.stroke();
}

function drawBox({ context, at, line }, { box, corners, parent }, color) {
  const [left, top, right, bottom] = box;
  const points = corners ?? [[left, top], [right, top], [right, bottom], [left, bottom]];
  trace(context, points.map(([x, y]) => at(x, y)), true);
  const width = parent >= 0 ? line / 2 : line;
  stroke(context, "rgb(0 0 0 / .45)", width + line * 0.7);
  stroke(context, css(color), width);
}

function drawTrail({ context, at, line }, points, color) {
  if (points.length < 2) return;
  trace(context, points.map(([, x, y]) => at(x, y)), false);
  stroke(context, css(color, 0.85), line);
}

function drawKeypoints({ context, at, line }, points, color) {
  const sure = points.map((point) => point && point[2] >= SURE && point[0] !== null && at(point[0], point[1]));
  for (const [from, to] of points.length === 17 ? BODY : []) {
    if (!sure[from] || !sure[to]) continue;
    trace(context, [sure[from], sure[to]], false);
    stroke(context, css(color), line);
  }
  context.fillStyle = css(color);
  for (const point of sure) {
    if (!point) continue;
    context.beginPath();
    context.arc(...point, line * 1.3, 0, 7);
    context.fill();
  }
}

const short = (name) => (name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}…` : name);

/** Text on a plate in a colour, inside the image; not where it would cover another one, unless it `mustBe`. */
function plate({ context, place, text, unit, taken }, words, x, y, { background, color = "#000", mustBe = false }) {
  const width = context.measureText(words).width + 8 * unit;
  const height = text * 1.35;
  const left = Math.max(place.left, Math.min(x, place.left + place.width - width));
  const top = Math.max(place.top, Math.min(y, place.top + place.height - height));
  const covers = (other) => left < other.right && other.left < left + width && top < other.bottom && other.top < top + height;
  if (!mustBe && taken.some(covers)) return;
  taken.push({ left, top, right: left + width, bottom: top + height });
  context.fillStyle = background;
  context.beginPath();
  context.roundRect(left, top, width, height, 3 * unit);
  context.fill();
  context.fillStyle = color;
  context.fillText(words, left + 4 * unit, top + height / 2 + unit * 0.5);
}

// Attributes as `draw` writes them: texts as they are, numbers with their name; not how sure `color` is beside it.
export function attributeTexts(attributes) {
  const isAside = (name) => ["_confidence", "_top"].some((end) => name.endsWith(end) && name.slice(0, -end.length) in attributes);
  return Object.entries(attributes).filter(([name]) => !isAside(name)).flatMap(([name, value]) => {
    if (typeof value === "number") return [`${name} ${Number(value.toPrecision(3))}`];
    return typeof value === "string" && value ? [value] : [];
  });
}

function drawLabel(pen, one, color, withTrack) {
  const [left, top, , bottom] = one.box;
  const isSure = one.confidence !== null && one.confidence !== undefined;
  const sure = isSure && !pen.isSmall ? ` ${Math.round(100 * one.confidence)} %` : "";
  const track = withTrack && one.track_id >= 0 && !pen.isSmall ? ` #${one.track_id}` : "";
  const isPart = one.parent >= 0;
  const [x, y] = pen.at(left, isPart ? bottom : top);
  plate(pen, `${short(one.label)}${track}${sure}`, x - pen.line / 2, isPart ? y : y - pen.text * 1.35, { background: css(color, 0.92) });
  if (pen.isSmall) return;
  const told = attributeTexts(one.attributes ?? {}).join(" ");
  const below = pen.at(left, bottom)[1] + (isPart ? pen.text * 1.35 : 0);
  if (told) plate(pen, short(told), x - pen.line / 2, below, { background: "rgb(0 0 0 / .7)", color: "#fff" });
}

function drawShape({ context, at, line }, { kind, points }) {
  const isZone = kind === "zone";
  trace(context, points.map(([x, y]) => at(x, y)), isZone);
  if (isZone) {
    context.fillStyle = css(ZONE, 0.16);
    context.fill();
  }
  stroke(context, "rgb(0 0 0 / .5)", line * 2);
  stroke(context, css(isZone ? ZONE : LINE), line);
}

function drawCounts(pen, { kind, name, points, counts }) {
  const told = [short(name), ...Object.entries(counts ?? {}).map(([key, value]) => `${key} ${value}`)].join("  ");
  const sum = points.reduce((so, [x, y]) => [so[0] + x, so[1] + y], [0, 0]);
  const [x, y] = pen.at(sum[0] / points.length, sum[1] / points.length);
  const width = pen.context.measureText(told).width + 8 * pen.unit;
  const background = css(kind === "zone" ? ZONE : LINE, 0.92);
  plate(pen, told, x - width / 2, y - pen.text * 0.7, { background, mustBe: true });
}

/** Fill a mask: run lengths of the whole image, column by column, as COCO compresses them. */
function drawMask({ context, place }, { size: [height], counts }, color, scale) {
  const runs = runLengths(counts);
  context.fillStyle = css(color, 0.38);
  let at = 0;
  for (let index = 0; index < runs.length; index += 1) {
    let [from, left] = [at, index % 2 ? runs[index] : 0];
    at += runs[index];
    while (left > 0) {
      const [x, y] = [Math.floor(from / height), from % height];
      const length = Math.min(left, height - y);
      context.fillRect(place.left + x * scale.x, place.top + y * scale.y, scale.x + 0.4, length * scale.y);
      from += length;
      left -= length;
    }
  }
}

export function runLengths(text) {
  const runs = [];
  for (let index = 0; index < text.length; ) {
    let [value, shift, code] = [0, 0, 0];
    do {
      code = text.charCodeAt(index) - 48;
      index += 1;
      value += (code & 31) * 2 ** shift;
      shift += 5;
    } while (code & 32);
    if (code & 16) value -= 2 ** shift;
    runs.push(runs.length > 2 ? value + runs[runs.length - 2] : value);
  }
  return runs;
}
