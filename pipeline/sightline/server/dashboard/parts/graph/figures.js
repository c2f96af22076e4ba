// What a running graph measures: figures over the last seconds, from what the status counts, and where it is too slow.

import { useRef } from "../../lib.js";

const WINDOW_SECONDS = 6;
const BUSY = 0.75; // a thread that works this much of the time keeps the others waiting,
const BUSY_WITH_QUEUE = 0.4; // or this much while frames pile up before it
const FULL = 0.75; // of a queue

/** The figures of the last seconds, renewed with each status: see `figuresOf`; null until two were read. */
export function useFigures(status, graph) {
  const { current: samples } = useRef([]);
  if (status && samples.at(-1)?.time !== status.time) {
    if (samples.length && status.seconds < samples.at(-1).seconds) samples.length = 0; // another run
    samples.push(status);
    while (samples.length > 2 && status.time - samples[0].time > WINDOW_SECONDS) samples.shift();
  }
  return samples.length > 1 && graph ? figuresOf(samples, graph) : null;
}

/**
 * `{steps, stages, streams, queues, cores, bottleneck}` of some statuses, oldest first. `steps` by id: frames a second
 * (`fps`), shares of the time in which it works (`busy`) and in which its results are waited for (`wait`), of a core
 * (`cores`), milliseconds a frame (`frameMs`), `p95`, runs of its model. `queues` by link: `depth` on average, `now`,
 * `capacity`, `age`, `policy`, `dropped` a second, `blocked`: the share of the time in which its sender waits for room.
 */
export function figuresOf(samples, graph) {
  const first = samples[0];
  const last = samples.at(-1);
  const seconds = Math.max(last.time - first.time, 1e-3);
  const queues = queuesOf(samples, seconds);
  const lanes = Math.max(1, new Set(last.links.filter((one) => one.stream === null).map(laneOf)).size);
  const steps = new Map();
  for (const step of last.elements) {
    const before = first.elements.find((one) => one.id === step.id);
    const since = (key) => Math.max(0, step[key] - (before?.[key] ?? 0)) / seconds;
    const frames = since("frames");
    steps.set(step.id, {
      fps: frames,
      busy: since("busy_seconds") / lanes,
      wait: since("result_wait_seconds") / lanes,
      cores: since("cpu_seconds"),
      frameMs: frames ? (1000 * (since("busy_seconds") + since("result_wait_seconds"))) / frames : 0,
      p95: step.latency_ms_p95,
      failures: step.failures ?? {},
      runs: step.engine_runs,
      saved: step.engine_saved_runs,
    });
  }
  const streams = new Map(last.streams.map((stream) => {
    const before = first.streams.find((one) => one.name === stream.name);
    const read = Math.max(0, (stream.read_cpu_seconds ?? 0) - (before?.read_cpu_seconds ?? 0)) / seconds;
    return [stream.name, { fps: stream.rates.received, dropped: stream.rates.dropped, read, state: stream.state, live: stream.live }];
  }));
  const stages = graph.stages.map((stage) => stageFigures(stage, steps, queues));
  const cores = Math.max(0, last.process.cpu_seconds - first.process.cpu_seconds) / seconds;
  return { steps, stages, streams, queues, cores, bottleneck: bottleneckOf(stages, streams, last) };
}

/** How busy a step keeps threads: while it works, and while its results are waited for. */
export const shareOf = (step) => Math.min(1, Math.max(step.busy, step.wait));

// With several GPUs each has links of its own: `cuda:1/after-detect-1`. Each stream has a link `source`.
const laneOf = (link) => link.name.split("/").slice(0, -1).join("/");
const queueOf = (link) => (link.stream === null ? link.name.split("/").at(-1) : `source/${link.stream}`);

function queuesOf(samples, seconds) {
  const queues = new Map();
  for (const sample of samples) {
    for (const link of sample.links) {
      const name = queueOf(link);
      const one = queues.get(name) ?? { name, stream: link.stream, depths: [], byLane: new Map() };
      one.depths.push(link.depth / Math.max(1, link.capacity));
      one.byLane.set(link.name, [...(one.byLane.get(link.name) ?? []), link]);
      queues.set(name, one);
    }
  }
  const newest = new Set(samples.at(-1).links.map(queueOf));
  for (const [name, one] of queues) {
    if (!newest.has(name)) {
      queues.delete(name);
      continue;
    }
    const lanes = [...one.byLane.values()];
    const newestOf = lanes.map((links) => links.at(-1));
    const since = (key) => lanes.reduce((sum, links) => sum + Math.max(0, links.at(-1)[key] - links[0][key]), 0) / seconds;
    queues.set(name, {
      name,
      stream: one.stream,
      fill: one.depths.reduce((sum, fill) => sum + fill, 0) / one.depths.length,
      depth: newestOf.reduce((sum, link) => sum + link.depth, 0),
      capacity: newestOf.reduce((sum, link) => sum + link.capacity, 0),
      age: Math.max(...newestOf.map((link) => link.oldest_age_seconds)),
      policy: newestOf[0].policy,
      sent: since("sent"),
      dropped: since("dropped"),
      blocked: since("send_wait_seconds") / lanes.length,
    });
  }
  return queues;
}

function stageFigures(stage, steps, queues) {
  const own = stage.steps.filter((id) => steps.has(id)).map((id) => ({ id, share: steps.get(id).busy }));
  if (stage.waits_for && steps.has(stage.waits_for)) own.push({ id: stage.waits_for, share: steps.get(stage.waits_for).wait });
  const busy = own.reduce((sum, one) => sum + one.share, 0);
  const slowest = own.reduce((most, one) => (one.share > (most?.share ?? -1) ? one : most), null);
  return { ...stage, busy: Math.min(1, busy), slowest, queue: stage.link ? queues.get(stage.link) ?? null : fullestSource(queues) };
}

function fullestSource(queues) {
  const sources = [...queues.values()].filter((queue) => queue.stream !== null);
  return sources.reduce((most, queue) => (queue.fill > (most?.fill ?? -1) ? queue : most), null);
}

// The busiest thread, when it leaves hardly any time: everything before it waits for it. Else a source that a whole core
// only reads. `kind` is step, source or none; `busiest` is the stage with the most work in any case.
function bottleneckOf(stages, streams, status) {
  const busiest = stages.reduce((most, stage) => (stage.slowest && stage.busy > (most?.busy ?? 0) ? stage : most), null);
  const dropped = [...streams.values()].reduce((sum, stream) => sum + stream.dropped, 0);
  const found = { busiest, dropped, overloaded: status.overloaded };
  const isFound = busiest && (busiest.busy >= BUSY || (busiest.busy >= BUSY_WITH_QUEUE && busiest.queue && isFull(busiest.queue)));
  if (isFound) {
    const others = busiest.steps.filter((id) => id !== busiest.slowest.id);
    return { ...found, kind: "step", id: busiest.slowest.id, share: busiest.busy, others, queue: busiest.queue };
  }
  const reading = [...streams].filter(([, stream]) => stream.read >= BUSY).sort(([, one], [, other]) => other.read - one.read)[0];
  return reading ? { ...found, kind: "source", id: reading[0], share: reading[1].read } : { ...found, kind: "none" };
}

/** Whether frames pile up in a queue. */
export const isFull = (queue) => queue.fill >= FULL;
