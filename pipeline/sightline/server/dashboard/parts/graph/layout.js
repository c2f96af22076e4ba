// Where the boxes of a graph lie: dagre's layout of streams, steps, joins and destinations.

import { Graph, layout } from "../../vendor/dagre.js";

const SIZES = { stream: [176, 52], streams: [176, 52], step: [216, 92], join: [84, 34], delivery: [176, 52] };
const MOST_STREAMS = 5; // more are one box
const MARGIN = 26;
const THREAD_HEAD = 22;

/**
 * Lay a graph out, `direction` LR or TB: `{width, height, boxes, ways, threads}`. A box is `{key, kind, id, x, y, w, h}`
 * with its middle, a way `{key, start, end, link, branch, points, middle}` between keys of boxes, a thread
 * `{name, x, y, w, h}` surrounds the steps of one thread where it has several.
 */
export function laidOut(graph, direction) {
  const plan = new Graph({ compound: true, multigraph: true });
  plan.setGraph({ rankdir: direction, nodesep: 26, ranksep: 54, edgesep: 18, marginx: MARGIN, marginy: MARGIN });
  plan.setDefaultEdgeLabel(() => ({}));
  const { boxes, ways } = partsOf(graph);
  for (const box of boxes) {
    const [width, height] = SIZES[box.kind];
    plan.setNode(box.key, { width, height });
  }
  const threads = graph.stages.filter((stage) => stage.steps.length > 1);
  for (const stage of threads) {
    plan.setNode(`thread/${stage.name}`, {});
    for (const id of stage.steps) plan.setParent(`step/${id}`, `thread/${stage.name}`);
  }
  for (const way of ways) plan.setEdge(way.start, way.end, { width: 46, height: 22, labelpos: "c" }, way.key);
  layout(plan);
  const { width, height } = plan.graph();
  return {
    width,
    height,
    boxes: boxes.map((box) => ({ ...box, ...placeOf(plan.node(box.key)) })),
    ways: ways.map((way) => {
      const { points, x, y } = plan.edge(way.start, way.end, way.key);
      return { ...way, points, middle: { x, y } };
    }),
    threads: threads.map(({ name }) => {
      const place = placeOf(plan.node(`thread/${name}`));
      return { name, ...place, y: place.y - THREAD_HEAD / 2, h: place.h + THREAD_HEAD };
    }),
  };
}

const placeOf = ({ x, y, width, height }) => ({ x, y, w: width, h: height });

function partsOf(graph) {
  const steps = new Set(graph.steps.map((step) => step.id));
  const keyOf = (id) => (steps.has(id) ? `step/${id}` : `join/${id}`);
  const areFew = graph.streams.length <= MOST_STREAMS;
  const boxes = areFew
    ? graph.streams.map((id) => ({ key: `stream/${id}`, kind: "stream", id }))
    : [{ key: "streams", kind: "streams", id: "" }];
  const sources = boxes.map((box) => box.key);
  boxes.push(...graph.steps.map(({ id }) => ({ key: `step/${id}`, kind: "step", id })));
  boxes.push(...graph.stages.filter((stage) => stage.is_join).map(({ name }) => ({ key: `join/${name}`, kind: "join", id: name })));
  const ways = graph.links.flatMap(({ start, end, link, branch }) => {
    const starts = start === null ? sources : [keyOf(start)];
    return starts.map((from) => ({ start: from, end: keyOf(end), link: start === null ? sourceLink(from) : link, branch }));
  });
  for (const step of graph.steps) {
    for (const id of step.destinations) {
      boxes.push({ key: `delivery/${id}`, kind: "delivery", id });
      ways.push({ start: `step/${step.id}`, end: `delivery/${id}`, link: null, branch: null });
    }
  }
  return { boxes, ways: ways.map((way) => ({ ...way, key: `${way.start} ${way.end} ${way.link}` })) };
}

const sourceLink = (key) => (key === "streams" ? "source" : `source/${key.slice("stream/".length)}`);

/** The path of a way as SVG draws it, in soft bends. */
export function pathOf(points) {
  const [first, ...rest] = points;
  const parts = rest.slice(0, -1).map((point, at) => {
    const next = rest[at + 1];
    const isLast = at === rest.length - 2;
    const end = isLast ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q ${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  const end = rest.at(-1);
  return `M ${first.x} ${first.y} ${parts.length ? parts.join(" ") : `L ${end.x} ${end.y}`}`;
}

/** The box that an arrow key leads to from another: along the ways, else the nearest in that direction; null at the edge. */
export function neighbour(plan, key, arrow) {
  const from = plan.boxes.find((box) => box.key === key);
  const [dx, dy] = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] }[arrow];
  const linked = new Set(plan.ways.flatMap((way) => (way.start === key ? [way.end] : way.end === key ? [way.start] : [])));
  const costs = plan.boxes.map((box) => {
    const ahead = (box.x - from.x) * dx + (box.y - from.y) * dy;
    const aside = Math.abs((box.x - from.x) * dy) + Math.abs((box.y - from.y) * dx);
    return { box, cost: ahead > 1 ? ahead + 2 * aside - (linked.has(box.key) ? 400 : 0) : Infinity };
  });
  const best = costs.reduce((least, one) => (one.cost < least.cost ? one : least), { box: null, cost: Infinity });
  return best.box;
}
