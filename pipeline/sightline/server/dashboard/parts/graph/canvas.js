// The graph of a pipeline on a surface that can be moved and zoomed: boxes are buttons, ways are drawn below them.

import { milliseconds, percent, rate } from "../../format.js";
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib.js";
import { t } from "../../texts/index.js";
import { isFull, shareOf } from "./figures.js";
import { laidOut, neighbour, pathOf } from "./layout.js";

const ZOOMS = { least: 0.35, most: 1.6, step: 1.2 };
const LEAST_LYING = 0.78; // a graph that had to be smaller lies top down, and the page scrolls
const TALLEST = 620;

/** The graph; `selected` is the key of a box (`step/detect-1`), `onSelect` gets the box that was picked. */
export function Canvas({ graph, figures, status, selected, onSelect }) {
  const surface = useRef();
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(surface.current);
    return () => observer.disconnect();
  }, []);
  const shape = JSON.stringify([graph.streams, graph.steps.map(({ id, destinations }) => [id, destinations]), graph.links, graph.stages]);
  const plan = useMemo(() => (width ? planFor(graph, width) : null), [shape, width]);
  const [view, setView] = useState(null);
  useEffect(() => setView(null), [plan]);
  const shown = view ?? plan?.fit;
  const moves = useMoves(surface, shown, setView);

  function onKeyDown(event) {
    const key = event.target.closest("[data-box]")?.dataset.box;
    if (key && event.key.startsWith("Arrow")) {
      event.preventDefault();
      const next = neighbour(plan, key, event.key);
      if (next) surface.current.querySelector(`[data-box="${CSS.escape(next.key)}"]`).focus();
    } else if (event.key === "+" || event.key === "-") {
      moves.zoom(event.key === "+" ? ZOOMS.step : 1 / ZOOMS.step);
    } else if (event.key === "0") {
      setView(null);
    }
  }

  return html`<div class="graph-frame" role="group" aria-label=${t("graph.canvas")}>
    <div class="graph-tools"><span class="faint small">${t("graph.legend")}</span>
      <button class="plain" onClick=${() => moves.zoom(ZOOMS.step)} aria-label=${t("graph.zoomIn")} title=${t("graph.zoomIn")}>+</button>
      <button class="plain" onClick=${() => moves.zoom(1 / ZOOMS.step)} aria-label=${t("graph.zoomOut")} title=${t("graph.zoomOut")}>−</button>
      <button class="plain" onClick=${() => setView(null)} aria-label=${t("graph.fit")} title=${t("graph.fit")}>⤢</button>
    </div>
    <div class="graph-surface" ref=${surface} style=${{ height: `${plan?.height ?? 240}px` }} onKeyDown=${onKeyDown} ...${moves.handlers}>
      ${plan && html`<div class="graph-world" style=${{ transform: `translate(${shown.x}px, ${shown.y}px) scale(${shown.scale})`, width: `${plan.width}px`, height: `${plan.laidHeight}px` }}>
        ${plan.threads.map((thread) => html`<${Thread} key=${thread.name} thread=${thread} figures=${figures} />`)}
        <${Ways} plan=${plan} figures=${figures} />
        ${plan.boxes.map((box) => html`<${Box} key=${box.key} box=${box} graph=${graph} figures=${figures} status=${status}
          isSelected=${box.key === selected} onSelect=${onSelect} />`)}
      </div>`}
    </div>
  </div>`;
}

// Left to right where that fits, else top down, as tall as it is.
function planFor(graph, width) {
  const lying = laidOut(graph, "LR");
  const isLying = width / lying.width >= LEAST_LYING && lying.height <= TALLEST;
  const laid = isLying ? lying : laidOut(graph, "TB");
  const scale = Math.min(1, Math.max(ZOOMS.least, width / laid.width));
  const height = Math.ceil(laid.height * scale) + 8;
  return { ...laid, laidHeight: laid.height, height, fit: { x: Math.max(0, (width - laid.width * scale) / 2), y: 4, scale } };
}

// Dragging moves, Ctrl and the wheel (or two fingers on a touchpad) zoom.
function useMoves(surface, shown, setView) {
  const drag = useRef(null);
  const now = useRef(shown);
  now.current = shown;
  function zoom(factor, at) {
    const { x, y, scale } = now.current;
    const { clientWidth, clientHeight } = surface.current;
    const middle = at ?? { x: clientWidth / 2, y: clientHeight / 2 };
    const next = Math.min(ZOOMS.most, Math.max(ZOOMS.least, scale * factor));
    const grown = next / scale;
    setView({ x: middle.x - (middle.x - x) * grown, y: middle.y - (middle.y - y) * grown, scale: next });
  }
  useEffect(() => {
    const turn = (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const place = surface.current.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 200), { x: event.clientX - place.x, y: event.clientY - place.y });
    };
    const element = surface.current;
    element.addEventListener("wheel", turn, { passive: false });
    return () => element.removeEventListener("wheel", turn);
  }, []);
  const handlers = {
    onPointerDown: (event) => {
      if (event.button !== 0 || event.pointerType === "touch" || event.target.closest("[data-box]")) return;
      drag.current = { x: event.clientX - now.current.x, y: event.clientY - now.current.y };
      surface.current.setPointerCapture(event.pointerId);
    },
    onPointerMove: (event) => {
      if (drag.current) setView({ ...now.current, x: event.clientX - drag.current.x, y: event.clientY - drag.current.y });
    },
    onPointerUp: () => (drag.current = null),
    onPointerCancel: () => (drag.current = null),
  };
  return { zoom, handlers };
}

const placed = ({ x, y, w, h }) => ({ left: `${x - w / 2}px`, top: `${y - h / 2}px`, width: `${w}px`, height: `${h}px` });

function Thread({ thread, figures }) {
  const stage = figures?.stages.find((one) => one.name === thread.name);
  return html`<div class="graph-thread" style=${placed(thread)} aria-hidden="true">
    <span>${t("graph.thread", { name: thread.name })}${stage && ` · ${percent(stage.busy)}`}</span>
  </div>`;
}

function Ways({ plan, figures }) {
  return html`<svg class="graph-ways" width=${plan.width} height=${plan.laidHeight} aria-hidden="true">
      <defs><marker id="graph-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
      ${plan.ways.map((way) => html`<path key=${way.key} class=${wayKind(way, figures)} d=${pathOf(way.points)} marker-end="url(#graph-tip)" />`)}
    </svg>
    ${plan.ways.map((way) => html`<${WayLabel} key=${way.key} way=${way} queue=${figures?.queues.get(way.link)} />`)}`;
}

function wayKind(way, figures) {
  const queue = figures?.queues.get(way.link);
  return queue && isFull(queue) ? "full" : "";
}

function WayLabel({ way, queue }) {
  if (!queue && !way.branch) return null;
  const place = { left: `${way.middle.x}px`, top: `${way.middle.y}px` };
  return html`<span class="graph-queue" style=${place} aria-hidden="true">
    ${way.branch && html`<i>${way.branch}</i>`}
    ${queue && html`<b class=${isFull(queue) ? "bad" : ""} title=${t("graph.queueTitle", { name: queue.name, depth: queue.depth, capacity: queue.capacity, age: milliseconds(1000 * queue.age) })}>
      ${queue.depth}/${queue.capacity}</b>`}
  </span>`;
}

function Box({ box, graph, figures, status, isSelected, onSelect }) {
  const part = { stream: StreamBox, streams: StreamsBox, step: StepBox, join: JoinBox, delivery: DeliveryBox }[box.kind];
  const isBottleneck = figures && figures.bottleneck.kind !== "none" && box.key === `${figures.bottleneck.kind === "step" ? "step" : "stream"}/${figures.bottleneck.id}`;
  return html`<button class="graph-box ${box.kind} ${isBottleneck ? "bottleneck" : ""}" data-box=${box.key} style=${placed(box)}
      aria-pressed=${isSelected} onClick=${() => onSelect(box)}>
    <${part} box=${box} graph=${graph} figures=${figures} status=${status} />
    ${isBottleneck && html`<span class="badge bad">${t("graph.bottleneck")}</span>`}
  </button>`;
}

function StepBox({ box, graph, figures }) {
  const step = graph.steps.find((one) => one.id === box.id);
  const now = figures?.steps.get(box.id);
  const share = now ? shareOf(now) : 0;
  const place = [step.engine, step.device !== "cpu" && step.device].filter(Boolean).join(" · ");
  return html`
    <span class="graph-name"><b>${step.id}</b>${step.id.startsWith(step.element) ? null : html`<i>${step.element}</i>`}</span>
    <span class="graph-figures">${now ? html`<span><b>${rate(now.fps)}</b> ${t("graph.fps")}</span><span>${t("graph.p95", { time: milliseconds(now.p95) })}</span>` : "…"}</span>
    <span class="graph-bar"><span style=${{ width: percent(share).replace(" ", "") }} class=${share >= 0.75 ? "bad" : share >= 0.5 ? "warn" : ""}></span></span>
    <span class="graph-figures small">${now && html`<span>${t("graph.busy", { share: percent(share) })}</span>`}<span class="faint">${place}</span></span>`;
}

function StreamBox({ box, figures }) {
  const stream = figures?.streams.get(box.id);
  return html`<span class="graph-name"><b>${box.id}</b></span>
    <span class="graph-figures small">${stream ? html`<span>${rate(stream.fps)} ${t("graph.fps")}</span><span>${t("graph.read", { share: percent(stream.read) })}</span>` : "…"}</span>`;
}

function StreamsBox({ graph, figures }) {
  const all = figures ? [...figures.streams.values()] : [];
  const live = all.filter((stream) => stream.state === "live").length;
  return html`<span class="graph-name"><b>${t("graph.streams", { count: graph.streams.length })}</b></span>
    <span class="graph-figures small"><span>${rate(all.reduce((sum, one) => sum + one.fps, 0))} ${t("graph.fps")}</span><span>${t("graph.liveStreams", { live })}</span></span>`;
}

const JoinBox = () => html`<span>${t("graph.join")}</span>`;

function DeliveryBox({ box, status }) {
  const delivery = status?.deliveries.find((one) => one.id === box.id);
  const kind = { connected: "good", lost: "bad", refused: "bad" }[delivery?.state] ?? "faint";
  return html`<span class="graph-name"><b>${delivery?.address ?? box.id}</b></span>
    <span class="graph-figures small"><span class=${kind}>${delivery ? t(`graph.delivery_${delivery.state}`) : "…"}</span>
      ${delivery && html`<span>${t("graph.waiting", { count: delivery.waiting })}</span>`}</span>`;
}
