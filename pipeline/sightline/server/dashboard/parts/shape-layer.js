// Shapes over the image of a stream: they are chosen, moved and reshaped with the mouse, by touch and by keyboard.
// Points are in fractions of the frame; the layer draws in pixels of the page, so that handles stay round.

import { centre, edges, inwards, middle, moved, snapped, within } from "./geometry.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../lib.js";
import { t } from "../texts/index.js";

const HANDLE = 6;
const REACH_PX = 9;
const ARROW_PX = 30;
const WIDE_PX = 480; // a narrower layer has no place for counts
const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** The step of an arrow key: a hundredth of the frame; five with Shift, a tenth of it with Ctrl. Null for other keys. */
export function stepOf(event) {
  const step = STEPS[event.key];
  if (!step || event.altKey || event.metaKey) return null;
  const size = event.shiftKey ? 0.05 : event.ctrlKey ? 0.001 : 0.01;
  return step.map((one) => one * size);
}

/** A place in words, for screen readers. */
export const placeText = ([x, y]) => t("zones.place", { x: (100 * x).toFixed(1), y: (100 * y).toFixed(1) });

/** The size of an element in pixels, as it changes. */
export function useSize(place) {
  const [size, setSize] = useState([0, 0]);
  useLayoutEffect(() => {
    const watcher = new ResizeObserver(([{ contentRect }]) => setSize([contentRect.width, contentRect.height]));
    watcher.observe(place.current);
    return () => watcher.disconnect();
  }, []);
  return size;
}

// The element of a shape that has the focus, not its copy above all others.
const ownOf = (svg, { id }) => [...svg.querySelectorAll(".shape")].find((one) => one.dataset.id === id);

/** Where a pointer is, in fractions of an element. */
export function fractionOf(event, element) {
  const { left, top, width, height } = element.getBoundingClientRect();
  return [(event.clientX - left) / width, (event.clientY - top) / height];
}

/**
 * The layer: an SVG that fills what is around it. `shapes` are `{id, name, outline, points, color, counts, faults}`;
 * `chosen` is the id of one, `point` the number of one of its points or null. `onChoose(id, point)`,
 * `onPoints(points, goesOn)` while it is moved, then `onDone()` or `onCancel()`. `children` are drawn above; while there
 * are any, shapes cannot be taken. `isFixed`: nothing can be moved.
 */
export function ShapeLayer({ shapes, chosen, point, label, isFixed, onChoose, onPoints, onDone, onCancel, children }) {
  const svg = useRef();
  const drag = useRef(null);
  const isNew = useRef(false); // a point that was just made gets the focus
  const size = useSize(svg);
  const shape = shapes.find((one) => one.id === chosen);
  const isDrawing = Boolean(children);

  const reach = [REACH_PX / (size[0] || 1), REACH_PX / (size[1] || 1)];
  const targets = shapes.filter((one) => one.id !== chosen).flatMap((one) => one.points);
  const near = (at, event) => (event.altKey ? within(at) : snapped(within(at), reach, targets));

  const take = (one, number) => (event) => {
    if (event.button > 0 || isDrawing) return;
    event.preventDefault();
    (number === null ? ownOf(svg.current, one) : event.currentTarget)?.focus({ preventScroll: true });
    onChoose(one.id, number);
    if (isFixed) return;
    svg.current.setPointerCapture(event.pointerId);
    drag.current = { pointer: event.pointerId, from: fractionOf(event, svg.current), points: one.points, number, hasMoved: false };
  };
  const takeMiddle = (number) => (event) => {
    if (event.button > 0) return;
    event.preventDefault();
    const points = shape.points.toSpliced(number + 1, 0, near(fractionOf(event, svg.current), event));
    onPoints(points, true);
    onChoose(shape.id, number + 1);
    isNew.current = true;
    svg.current.setPointerCapture(event.pointerId);
    drag.current = { pointer: event.pointerId, from: fractionOf(event, svg.current), points, number: number + 1, hasMoved: true };
  };
  const pull = (event) => {
    const held = drag.current;
    if (!held || held.pointer !== event.pointerId || !shape) return;
    const at = fractionOf(event, svg.current);
    const apart = [(at[0] - held.from[0]) * size[0], (at[1] - held.from[1]) * size[1]];
    if (!held.hasMoved && Math.hypot(...apart) < 3) return; // a click trembles
    held.hasMoved = true;
    onPoints(held.number === null
      ? moved(held.points, [at[0] - held.from[0], at[1] - held.from[1]])
      : held.points.with(held.number, near(at, event)), true);
  };
  const drop = (event) => {
    if (drag.current?.pointer !== event.pointerId) return;
    drag.current = null;
    if (event.type === "pointercancel") onCancel(); // it became a swipe that scrolls
    else onDone();
  };
  useEffect(() => {
    if (isNew.current) svg.current.querySelector(".handle.is-chosen")?.focus({ preventScroll: true });
    isNew.current = false;
  });
  useEffect(() => {
    const cancel = (event) => {
      if (event.key !== "Escape" || !drag.current) return;
      drag.current = null;
      event.stopPropagation();
      onCancel();
    };
    window.addEventListener("keydown", cancel, true);
    return () => window.removeEventListener("keydown", cancel, true);
  });

  const push = (number) => (event) => {
    const step = stepOf(event);
    if (!step || isFixed || !shape) return;
    event.preventDefault();
    const to = number === null ? moved(shape.points, step) : shape.points.with(number, within(shape.points[number].map((one, axis) => one + step[axis])));
    onPoints(to, true);
  };
  const release = (event) => event.key in STEPS && onDone();

  const px = ([x, y]) => [x * size[0], y * size[1]];
  return html`<svg ref=${svg} class="shapes ${isDrawing ? "is-drawing" : ""} ${isDrawing || shape ? "is-taken" : ""}" role="group" aria-label=${label}
      onPointerMove=${pull} onPointerUp=${drop} onPointerCancel=${drop}
      onPointerDown=${(event) => event.target === svg.current && !isDrawing && onChoose(null, null)}>
    ${size[0] > 0 && html`
      ${shapes.map((one) => html`<${Shape} key=${one.id} shape=${one} px=${px} size=${size} isChosen=${one.id === chosen} isHidden=${isDrawing}
        onPointerDown=${take(one, null)} onFocus=${() => one.id !== chosen && onChoose(one.id, null)}
        onKeyDown=${push(null)} onKeyUp=${release} />`)}
      ${shape && !isDrawing && html`<g class="shape" style=${{ color: shape.color }} onPointerDown=${take(shape, null)}>
        <${Outline} shape=${shape} px=${px} size=${size} isChosen=${true} /></g>`}
      ${shape && !isDrawing && !isFixed && html`
        ${shape.outline === "zone" && edges(shape.points, true).map((edge, number) => html`
          <${Middle} key=${`m${number}`} at=${px(middle(...edge))} onPointerDown=${takeMiddle(number)} />`)}
        ${shape.points.map((one, number) => html`<${Handle} key=${`p${number}`} at=${px(one)} color=${shape.color} isChosen=${number === point}
          label=${t("zones.point", { number: number + 1, all: shape.points.length, name: shape.name, place: placeText(one) })}
          onPointerDown=${take(shape, number)} onFocus=${() => onChoose(shape.id, number)} onKeyDown=${push(number)} onKeyUp=${release} />`)}`}
      ${children && children(px, reach, svg)}`}
  </svg>`;
}

const path = (points, isClosed) => `M${points.map((one) => one.join(" ")).join("L")}${isClosed ? "Z" : ""}`;

function Shape({ shape, px, size, isChosen, isHidden, ...handlers }) {
  if (shape.points.length < 2) return null;
  const label = t(shape.outline === "zone" ? "zones.shapeZone" : "zones.shapeLine", {
    name: shape.name, points: shape.points.length, place: placeText(centre(shape.points)),
  });
  return html`<g class="shape" style=${{ color: shape.color }} tabindex=${isHidden ? -1 : 0} role="button" aria-label=${label}
      aria-pressed=${isChosen ? "true" : "false"} data-shape=${shape.name} data-id=${shape.id} ...${handlers}>
    <${Outline} shape=${shape} px=${px} size=${size} isChosen=${isChosen} />
  </g>`;
}

// What is seen of a shape, and where it can be taken.
function Outline({ shape, px, size, isChosen }) {
  const points = shape.points.map(px);
  const isZone = shape.outline === "zone";
  const line = path(points, isZone);
  const [x, y] = isZone ? centre(points) : middle(...points);
  const isWrong = shape.faults.some((one) => one.kind === "bad");
  return html`<g class="outline ${isChosen ? "is-chosen" : ""} ${isWrong ? "is-wrong" : ""}" aria-hidden="true">
    <path class="shape-hit" d=${line} />
    ${isZone && html`<path class="shape-fill" d=${line} />`}
    <path class="shape-halo" d=${line} /><path class="shape-line" d=${line} />
    ${!isZone && html`<${Direction} points=${shape.points} px=${px} size=${size} />`}
    <text class="shape-name" x=${x} y=${isZone ? y : y - 6} text-anchor="middle">${shape.name}</text>
    ${isZone && shape.counts && size[0] > WIDE_PX && html`<text class="shape-counts" x=${x} y=${y + 16} text-anchor="middle">${shape.counts}</text>`}
  </g>`;
}

// Which way over a line is `in`: an arrow across it, with the words that events have, and where it begins.
function Direction({ points, px, size }) {
  const [from, to] = points.map(px);
  const [nx, ny] = inwards(points, size);
  const [x, y] = middle(from, to);
  const tip = [x + nx * ARROW_PX, y + ny * ARROW_PX];
  const tail = [x - nx * ARROW_PX * 0.6, y - ny * ARROW_PX * 0.6];
  const wing = (side) => [tip[0] - nx * 9 + ny * 6 * side, tip[1] - ny * 9 - nx * 6 * side];
  const arrow = `${path([tail, tip], false)} ${path([wing(1), tip, wing(-1)], false)}`;
  const word = (text, along) => html`<text class="shape-way" x=${x + nx * along} y=${y + ny * along + 4} text-anchor="middle">${text}</text>`;
  return html`<path class="shape-halo" d=${arrow} /><path class="shape-line" d=${arrow} />
    <circle class="shape-start" cx=${from[0]} cy=${from[1]} r="4" />
    ${word(t("zones.in"), ARROW_PX + 14)}${word(t("zones.out"), -ARROW_PX * 0.6 - 14)}`;
}

const Handle = ({ at: [x, y], color, isChosen, label, ...handlers }) => html`
  <g class="handle ${isChosen ? "is-chosen" : ""}" style=${{ color }} tabindex="0" role="button" aria-pressed=${isChosen ? "true" : "false"} aria-label=${label} ...${handlers}>
    <circle class="handle-hit" cx=${x} cy=${y} r="14" /><circle class="handle-dot" cx=${x} cy=${y} r=${isChosen ? HANDLE + 2 : HANDLE} />
  </g>`;

const Middle = ({ at: [x, y], onPointerDown }) => html`<g class="middle" aria-hidden="true" onPointerDown=${onPointerDown}>
  <circle class="handle-hit" cx=${x} cy=${y} r="12" /><path class="middle-dot" d=${`M${x - 4} ${y}h8M${x} ${y - 4}v8`} />
</g>`;
