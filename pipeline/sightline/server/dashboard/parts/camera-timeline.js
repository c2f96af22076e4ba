// The last hours of a camera: how it was as a band, its events as bars. A moment is picked by mouse or keys.

import { address, path, read } from "../api.js";
import { dateAndTime } from "../format.js";
import { html, useEffect, useKept, useMemo, useState } from "../lib.js";
import { LANGUAGE, t } from "../texts/index.js";
import { Panel } from "./basic.js";
import { Clip } from "./events/clip.js";
import { RecordList } from "./records.js";
import { kindOf } from "./streams.js";

const RANGES = { hour: 3600, sixHours: 6 * 3600, day: 86_400, week: 7 * 86_400 };
const COLUMNS = 180;
const REFRESH_MS = 10_000;
const MOST_PAGES = 5;
const MOST_RECORDINGS = 200;
const TICKS = 6;
const LEGEND = [["event", "camera.legendEvents"], ["good", "camera.legendLive"], ["bad", "camera.legendAway"], ["none", "camera.legendNone"], ["recorded", "camera.legendClips"]];
const short = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "short" });
const long = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", hour: "2-digit", minute: "2-digit" });

/** The timeline of a stream, and what happened in the moment that is picked. */
export function CameraTimeline({ pipeline, stream }) {
  const [range, setRange] = useKept("timelineRange", "hour");
  const past = usePast(pipeline, stream, RANGES[range] ?? RANGES.hour);
  const [picked, setPicked] = useState(null);
  const ranges = html`<div class="segments" role="group" aria-label=${t("camera.range")}>${Object.keys(RANGES).map((name) => html`
    <button aria-pressed=${name === range} onClick=${() => setRange(name)}>${t(`camera.range_${name}`)}</button>`)}</div>`;
  return html`<${Panel} title=${t("camera.timeline")} actions=${ranges}>
    ${past && html`<${Track} past=${past} picked=${picked} onPick=${setPicked} />`}
    ${past && picked !== null && html`<${Moment} pipeline=${pipeline} stream=${stream} from=${picked} step=${past.step}
      clips=${past.clips.filter((clip) => clip.from < picked + past.step && clip.to > picked)} onClose=${() => setPicked(null)} />`}
  </${Panel}>`;
}

// What is known of the last seconds: `{from, to, step, times, frames, events, changes, clips}`, renewed every ten seconds.
function usePast(pipeline, stream, seconds) {
  const [past, setPast] = useState(null);
  useEffect(() => {
    const asking = new AbortController();
    let timer;
    const renew = async () => {
      if (!document.hidden) {
        const known = await readPast(pipeline, stream, seconds, asking.signal).catch(() => null); // the next one may succeed
        if (asking.signal.aborted) return;
        if (known) setPast(known);
      }
      timer = setTimeout(renew, REFRESH_MS);
    };
    renew();
    return () => {
      asking.abort();
      clearTimeout(timer);
    };
  }, [pipeline, stream, seconds]);
  return past;
}

async function readPast(pipeline, stream, seconds, signal) {
  const step = Math.max(10, Math.ceil(seconds / COLUMNS / 10) * 10);
  const to = Math.ceil(Date.now() / 1000 / step) * step;
  const query = { stream, from: to - seconds, to };
  const series = await read(address(path(pipeline, "history"), { ...query, series: ["fps", "events"], step: String(step) }), { signal });
  const columns = (name) => series.columns.filter((column) => column.series === name).map((column) => column.values);
  const events = series.times.map((_, index) => columns("events").reduce((sum, values) => sum + (values[index] ?? 0), 0));
  const changes = await readChanges(pipeline, { ...query, type: "message", kind: "stream_*", limit: 1000 }, signal);
  const [frames = series.times.map(() => null)] = columns("fps");
  const recordings = await read(address(path(pipeline, "recordings"), { ...query, limit: MOST_RECORDINGS }), { signal });
  const clips = recordings.map((one) => ({ ...one, from: Date.parse(one.start) / 1000, to: Date.parse(one.end) / 1000 })).reverse();
  return { from: to - seconds, to, step: series.step, times: series.times, frames, events, changes, clips };
}

// The changes of state, oldest first.
async function readChanges(pipeline, query, signal) {
  const changes = [];
  let after = 0;
  for (let page = 0; page < MOST_PAGES && after !== null; page += 1) {
    const answer = await read(address(path(pipeline, "history", "records"), { ...query, after }), { signal });
    changes.push(...answer.records.filter((record) => record.state));
    after = answer.next;
  }
  return changes.map(({ time, state }) => ({ at: Date.parse(time) / 1000, state }));
}

/**
 * The band: spans `{from, to, kind}` in which a stream was alike. Times without samples are those at which the pipeline did
 * not run; what is known of changes of state is laid over the rest.
 */
export function spansOf({ times, step, frames, changes, to }) {
  const spans = [];
  const add = (from, until, kind) => {
    const last = spans.at(-1);
    if (until <= from) return;
    if (last && last.kind === kind && last.to >= from) last.to = Math.max(last.to, until);
    else spans.push({ from, to: until, kind });
  };
  times.forEach((time, index) => {
    if (frames[index] === null) return;
    const end = Math.min(time + step, to);
    const before = changes.filter((change) => change.at <= time).at(-1);
    let kind = before ? kindOf(before.state) : frames[index] > 0 ? "good" : "bad";
    let at = time;
    for (const change of changes) {
      if (change.at <= time || change.at >= end) continue;
      add(at, change.at, kind);
      [at, kind] = [change.at, kindOf(change.state)];
    }
    add(at, end, kind);
  });
  return spans;
}

function Track({ past, picked, onPick }) {
  const { from, to, step, times, events, clips } = past;
  const spans = useMemo(() => spansOf(past), [past]);
  const most = Math.max(...events, 1);
  const x = (time) => (1000 * (time - from)) / (to - from);
  const indexOf = (time) => Math.min(Math.max(Math.floor((time - times[0]) / step), 0), times.length - 1);
  const index = picked === null ? times.length - 1 : indexOf(picked);
  const pick = (next) => onPick(times[Math.min(Math.max(next, 0), times.length - 1)]);
  const pickAt = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    pick(indexOf(from + ((to - from) * (event.clientX - box.left)) / box.width));
  };
  const neighbour = (direction) => {
    for (let next = index + direction; next >= 0 && next < times.length; next += direction) if (events[next]) return pick(next);
    return undefined;
  };
  const moves = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
  const move = (event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    pick(index + moves[event.key]);
  };
  const text = t("camera.momentText", { time: dateAndTime(times[index]), count: events[index] });
  return html`
    <div class="track" role="slider" tabindex="0" aria-label=${t("camera.moment")} aria-valuemin="0" aria-valuemax=${times.length - 1}
        aria-valuenow=${index} aria-valuetext=${text} title=${t("camera.pick")} onClick=${pickAt} onKeyDown=${move}>
      <svg viewBox="0 0 1000 60" preserveAspectRatio="none" aria-hidden="true">
        ${events.map((count, at) => count > 0 && html`
          <rect class="bar-event" x=${x(times[at])} width=${Math.max((1000 * step) / (to - from) - 1, 2)} y=${34 - (33 * count) / most} height=${6 + (33 * count) / most} />`)}
        ${clips.map((clip) => html`<rect class="band recorded" x=${x(clip.from)} width=${Math.max(x(clip.to) - x(clip.from), 2)} y="43" height="3" />`)}
        <rect class="band none" x="0" width="1000" y="46" height="14" />
        ${spans.map((span) => html`<rect class="band ${span.kind}" x=${x(span.from)} width=${x(span.to) - x(span.from)} y="46" height="14" />`)}
        ${picked !== null && html`<rect class="cursor" x=${x(times[index])} width=${Math.max((1000 * step) / (to - from), 3)} y="0" height="60" />`}
      </svg>
    </div>
    <${Axis} from=${from} to=${to} />
    <div class="bar track-bar">
      <button onClick=${() => neighbour(-1)}>${t("camera.eventBefore")}</button>
      <button onClick=${() => neighbour(1)}>${t("camera.eventAfter")}</button>
      <p class="legend small faint">${LEGEND.map(([sign, text]) => html`<span><span class="sign ${sign}"></span> ${t(text)}</span>`)}</p>
    </div>`;
}

function Axis({ from, to }) {
  const label = to - from > 86_400 ? long : short;
  const ticks = Array.from({ length: TICKS }, (_, index) => from + ((to - from) * index) / (TICKS - 1));
  return html`<p class="axis small faint" aria-hidden="true">${ticks.map((time) => html`<span>${label.format(new Date(time * 1000))}</span>`)}</p>`;
}

// What was reported in the moment that is picked, and what was recorded then.
function Moment({ pipeline, stream, from, step, clips, onClose }) {
  const [records, setRecords] = useState(null);
  useEffect(() => {
    const asking = new AbortController();
    const query = { stream, from, to: from + step, limit: 100 };
    read(address(path(pipeline, "history", "records"), query), { signal: asking.signal }).then(
      (answer) => setRecords(answer.records),
      () => asking.signal.aborted || setRecords([]),
    );
    return () => asking.abort();
  }, [pipeline, stream, from, step]);
  const close = (event) => event.key === "Escape" && onClose();
  return html`<section class="moment" aria-label=${t("camera.moment")} onKeyDown=${close}>
    <div class="panel-head"><h3>${dateAndTime(from)}</h3><button class="plain" onClick=${onClose} aria-label=${t("shell.close")}>✕</button></div>
    ${clips.map((clip) => html`
      <${Clip} key=${`${clip.id} ${from}`} pipeline=${pipeline} clip=${{ recording: clip, offset_seconds: Math.max(from - clip.from, 0) }} />`)}
    ${records && html`<${RecordList} pipeline=${pipeline} records=${records} empty=${t("camera.nothingThen")} />`}
  </section>`;
}
