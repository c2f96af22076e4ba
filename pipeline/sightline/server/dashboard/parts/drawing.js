// What is being drawn: points are set one by one with the mouse, by touch, or with a cross that the arrow keys move.

import { distance, within, snapped } from "./geometry.js";
import { html, useEffect, useRef, useState } from "../lib.js";
import { t } from "../texts/index.js";
import { fractionOf, placeText, stepOf } from "./shape-layer.js";

const CLOSE_PX = 12;

/** How many points something that is drawn has at most: lines and cuts end with the second. */
const mostOf = (what) => (what === "zone" ? Infinity : 2);

/** Whether it can be finished. */
export const canFinish = ({ what, points }) => points.length >= (what === "zone" ? 3 : 2);

/**
 * Drawn within a ShapeLayer, from whose children's function `px`, `reach` and `svg` come. `drawing` is
 * `{what, points}`, `what` is zone, line or cut. `onPoints` gets the points so far, `onFinish` all of them, `onTell` what a
 * screen reader is to say.
 */
export function Drawing({ drawing, px, reach, svg, targets, onPoints, onFinish, onCancel, onTell }) {
  const { what, points } = drawing;
  const place = useRef();
  const [at, setAt] = useState([0.5, 0.5]);
  const [isByKey, setByKey] = useState(false);
  useEffect(() => place.current.focus({ preventScroll: true }), []);

  const isNear = (one, other) => {
    const [[ax, ay], [bx, by]] = [px(one), px(other)];
    return Math.hypot(ax - bx, ay - by) < CLOSE_PX;
  };
  const set = (point) => {
    const last = points.at(-1);
    if (canFinish(drawing) && (isNear(point, points[0]) || isNear(point, last))) return onFinish(points);
    if (last && distance(point, last) < 1e-4) return undefined; // set twice
    const next = [...points, point];
    return next.length >= mostOf(what) ? onFinish(next) : onPoints(next);
  };
  const near = (event) => {
    const point = within(fractionOf(event, svg.current));
    return event.altKey ? point : snapped(point, reach, targets);
  };
  const follow = (event) => {
    setByKey(false);
    setAt(near(event));
  };
  const press = (event) => {
    if (event.button > 0) return;
    event.preventDefault();
    place.current.focus({ preventScroll: true });
    const point = near(event);
    setAt(point);
    set(point);
  };
  const type = (event) => {
    const step = stepOf(event);
    if (step) {
      setByKey(true);
      const next = within(at.map((one, axis) => one + step[axis]));
      setAt(next);
      onTell(placeText(next));
    } else if (event.key === "Enter" || event.key === " ") set(at);
    else if (event.key === "Backspace") onPoints(points.slice(0, -1));
    else if (event.key === "Escape") onCancel();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const now = px(at);
  const ends = points.map(px);
  const isReady = canFinish(drawing);
  return html`<g ref=${place} class="drawing ${isByKey ? "is-by-key" : ""}" tabindex="0" role="application" aria-label=${t("zones.drawLabel")}
      aria-describedby="zones-hint" onKeyDown=${type} onPointerMove=${follow} onPointerDown=${press}>
    <rect class="drawing-ground" width="100%" height="100%" />
    <polyline class="shape-halo" points=${[...ends, now].map((one) => one.join(",")).join(" ")} />
    <polyline class="drawing-line ${what}" points=${[...ends, now].map((one) => one.join(",")).join(" ")} />
    ${what === "zone" && ends.length > 1 && html`<line class="drawing-close" x1=${now[0]} y1=${now[1]} x2=${ends[0][0]} y2=${ends[0][1]} />`}
    ${ends.map(([x, y], number) => html`<circle class="handle-dot ${isReady && number === 0 ? "is-chosen" : ""}" cx=${x} cy=${y} r=${isReady && number === 0 ? 8 : 5} />`)}
    <path class="cross-halo" d=${`M${now[0] - 12} ${now[1]}h24M${now[0]} ${now[1] - 12}v24`} />
    <path class="cross" d=${`M${now[0] - 12} ${now[1]}h24M${now[0]} ${now[1] - 12}v24`} />
  </g>`;
}
