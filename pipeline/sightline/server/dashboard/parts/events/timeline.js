// The timeline of events: a lane for each camera, with what was recorded. It is zoomed by wheel, keys and buttons; a span
// is picked by dragging.

import { address, path, read } from "../../api.js";
import { count, dateAndTime } from "../../format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../../lib.js";
import { LANGUAGE, t } from "../../texts/index.js";
import { RANGES } from "./search.js";

const POINTS = 160;
const SHORTEST_SECONDS = 30;
const LONGEST_SECONDS = RANGES.week * 1.05;
const LEAST_DRAG_PX = 5;
const TICK_PX = 110;
const TICKS = [5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400];
const clock = new Intl.DateTimeFormat(LANGUAGE, { hour: "2-digit", minute: "2-digit" });
const exact = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });
const day = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", day: "numeric", month: "short" });

/** How many events each camera has over a span, and what was recorded: `{counts, recordings}`; undefined at first. */
export function useTimeline(pipeline, filters, span) {
  const [known, setKnown] = useState(undefined);
  const key = span && JSON.stringify([filters, Math.round(span.from / 5), Math.round(span.to / 5)]);
  useEffect(() => {
    if (!key) return undefined;
    const asking = new AbortController();
    const options = { signal: asking.signal };
    const { from, to } = span;
    const counts = read(address(path(pipeline, "history", "records", "counts"), { type: "event", ...filters, from, to, points: POINTS }), options);
    const recordings = read(address(path(pipeline, "recordings"), { from, to, limit: 1000, stream: filters.stream }), options);
    Promise.all([counts, recordings]).then(
      ([counted, recorded]) => setKnown({ counts: counted, recordings: recorded }),
      () => {}, // the list tells what is wrong
    );
    return () => asking.abort();
  }, [pipeline, key]);
  return known;
}

/** How many events a timeline has. */
export const totalOf = (known) => Object.values(known.counts.counts).reduce((sum, column) => sum + column.reduce((a, b) => a + b, 0), 0);

/** Show a timeline. `onSpan({from, to})` is called with the span that somebody picks, `onStream` with a camera. */
export function Timeline({ known, span, streams, marked, onSpan, onStream }) {
  const lanes = useRef();
  const [drag, setDrag] = useState(null);
  const [pointed, setPointed] = useState(null);
  const length = span.to - span.from;
  const place = (event) => {
    const { left, width } = lanes.current.querySelector("canvas").getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - left) / width));
  };
  const zoom = (factor, at = 0.5) => {
    const next = Math.min(LONGEST_SECONDS, Math.max(SHORTEST_SECONDS, length * factor));
    const from = span.from + (length - next) * at;
    onSpan(within({ from, to: from + next }));
  };
  const shift = (share) => onSpan(within({ from: span.from + share * length, to: span.to + share * length }));
  useWheel(lanes, (event) => zoom(event.deltaY > 0 ? 1.25 : 0.8, place(event)));

  const down = (event) => {
    if (event.button !== 0 || event.target.tagName !== "CANVAS") return;
    event.currentTarget.setPointerCapture(event.pointerId);
    setDrag({ begin: place(event), end: place(event), x: event.clientX });
  };
  const move = (event) => {
    setPointed(event.target.tagName === "CANVAS" || drag ? place(event) : null);
    if (drag) setDrag({ ...drag, end: place(event) });
  };
  const up = (event) => {
    if (!drag) return;
    setDrag(null);
    const [from, to] = [drag.begin, place(event)].sort((a, b) => a - b).map((at) => span.from + at * length);
    if (Math.abs(event.clientX - drag.x) >= LEAST_DRAG_PX) onSpan({ from, to });
    else zoom(0.25, drag.begin);
  };
  const keys = {
    ArrowLeft: () => shift(-0.25), ArrowRight: () => shift(0.25), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
  };
  const press = (event) => {
    if (!keys[event.key] || event.target !== event.currentTarget) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  };

  const columns = known?.counts.counts ?? {};
  const most = Math.max(1, ...Object.values(columns).flat());
  const shade = drag && { left: `${100 * Math.min(drag.begin, drag.end)}%`, width: `${100 * Math.abs(drag.end - drag.begin)}%` };
  return html`<div class="timeline" role="group" tabindex="0" aria-label=${t("events.timelineLabel", { total: known ? count(totalOf(known)) : "…", from: dateAndTime(span.from), to: dateAndTime(span.to) })}
      ref=${lanes} onKeyDown=${press} onPointerDown=${down} onPointerMove=${move} onPointerUp=${up} onPointerLeave=${() => setPointed(null)}>
    ${streams.map((name) => html`<div class="lane" key=${name} data-stream=${name}>
      <button class="plain lane-name" onClick=${() => onStream(name)} title=${t("events.onlyCamera", { name })}>${name}</button>
      <${Lane} known=${known} name=${name} span=${span} most=${most} />
    </div>`)}
    <div class="lane axis-lane"><span></span><${Axis} span=${span} /></div>
    <div class="over">${shade && html`<div class="shade" style=${shade}></div>`}
      ${marked >= span.from && marked <= span.to && html`<div class="marked" style=${{ left: `${(100 * (marked - span.from)) / length}%` }}></div>`}
      ${pointed !== null && html`<div class="pointed" style=${{ left: `${100 * pointed}%` }}><span class=${pointed > 0.8 ? "left" : ""}>${exact.format(1000 * (span.from + pointed * length))}</span></div>`}
    </div>
    <div class="zoom">
      <button onClick=${() => shift(-0.5)} aria-label=${t("events.earlier")} title=${t("events.earlier")}>◀</button>
      <button onClick=${() => zoom(0.5)} aria-label=${t("events.zoomIn")} title=${t("events.zoomIn")}>+</button>
      <button onClick=${() => zoom(2)} aria-label=${t("events.zoomOut")} title=${t("events.zoomOut")}>−</button>
      <button onClick=${() => shift(0.5)} aria-label=${t("events.later")} title=${t("events.later")}>▶</button>
    </div>
  </div>`;
}

// A span does not reach into the future.
function within({ from, to }) {
  const beyond = Math.max(0, to - Date.now() / 1000);
  return { from: from - beyond, to: to - beyond };
}

// The wheel zooms; the page must not scroll meanwhile, so the listener is not a passive one.
function useWheel(place, turn) {
  const latest = useRef();
  latest.current = turn;
  useEffect(() => {
    const element = place.current;
    const wheel = (event) => {
      if (event.target.tagName !== "CANVAS" || Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
      event.preventDefault();
      latest.current(event);
    };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  }, []);
}

function Lane({ known, name, span, most }) {
  const canvas = useRef();
  const size = useSize(canvas);
  useLayoutEffect(() => {
    const element = canvas.current;
    const scale = window.devicePixelRatio;
    element.width = Math.max(1, Math.round(size.width * scale));
    element.height = Math.max(1, Math.round(size.height * scale));
    const brush = element.getContext("2d");
    const { color: eventColor, outlineColor: recordColor } = getComputedStyle(element); // a canvas knows no variables
    const across = (seconds) => ((seconds - span.from) / (span.to - span.from)) * element.width;
    const band = Math.round(5 * scale);
    const height = element.height - band - 2 * scale;
    if (!known) return;
    brush.fillStyle = recordColor;
    for (const one of known.recordings) {
      if (one.stream !== name) continue;
      const [from, to] = [across(Date.parse(one.start) / 1000), across(one.recording ? span.to : Date.parse(one.end) / 1000)];
      brush.fillRect(from, element.height - band, Math.max(scale, to - from), band);
    }
    brush.fillStyle = eventColor;
    const { times, step, counts } = known.counts;
    (counts[name] ?? []).forEach((value, index) => {
      if (!value) return;
      const [from, to] = [across(times[index]), across(times[index] + step)];
      const tall = Math.max(3 * scale, height * Math.sqrt(value / most));
      brush.fillRect(from, height - tall, Math.max(2 * scale, to - from - scale), tall);
    });
  });
  return html`<canvas ref=${canvas} aria-hidden="true"></canvas>`;
}

function useSize(place) {
  const [size, setSize] = useState({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(([{ contentRect }]) => setSize({ width: contentRect.width, height: contentRect.height }));
    watcher.observe(place.current);
    return () => watcher.disconnect();
  }, []);
  return size;
}

function Axis({ span }) {
  const place = useRef();
  const { width } = useSize(place);
  const length = span.to - span.from;
  const step = TICKS.find((one) => (one / length) * width >= TICK_PX) ?? TICKS.at(-1);
  const offset = new Date(1000 * span.from).getTimezoneOffset() * 60;
  const ticks = [];
  for (let at = Math.ceil((span.from - offset) / step) * step + offset; width && at < span.to; at += step) ticks.push(at);
  const text = (at) => (step < 60 ? exact : (at - offset) % 86_400 === 0 ? day : clock).format(1000 * at);
  return html`<div class="ticks" ref=${place} aria-hidden="true">${ticks.map((at) => html`
    <span key=${at} style=${{ left: `${(100 * (at - span.from)) / length}%` }}>${text(at)}</span>`)}</div>`;
}
