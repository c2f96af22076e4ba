// Where an event happened, drawn on its image: the object's path and box, and the line or zone as it was then.

import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Thumbnail } from "./cards.js";

const HEAD = 0.022;

/** The image of an event with what happened on it; `isDrawn` false shows the image alone. */
export function Scene({ pipeline, details, isDrawn }) {
  const { record, scene } = details;
  const [width, height] = scene?.size ?? [16, 9];
  return html`<div class="scene" style=${{ aspectRatio: `${width} / ${height}` }}>
    <${Thumbnail} pipeline=${pipeline} record=${record} eager />
    ${scene && isDrawn && html`<svg viewBox="0 0 ${width} ${height}" role="img" aria-label=${t("events.sceneLabel")}>
      <${Drawing} scene=${scene} width=${width} height=${height} /></svg>`}
  </div>`;
}

function Drawing({ scene, width, height }) {
  const points = (list) => list.map(([x, y]) => `${x * width},${y * height}`).join(" ");
  const path = scene.path.map(([, x, y]) => [x, y]);
  const shape = points(scene.points);
  return html`
    ${scene.outline === "zone" && html`<polygon class="rule area" points=${shape} /><polygon class="rule" points=${shape} />`}
    ${scene.outline === "line" && html`<polyline class="edge" points=${shape} /><polyline class="rule" points=${shape} />`}
    ${scene.box && html`<${Box} box=${scene.box} width=${width} height=${height} />`}
    ${path.length > 1 && html`<polyline class="edge" points=${points(path)} /><polyline class="way" points=${points(path)} />
      <polygon class="way-head" points=${points(headOf(path, width, height))} />`}
    ${path.length > 0 && html`<circle class="way-start" cx=${path[0][0] * width} cy=${path[0][1] * height} r=${width * 0.008} />`}`;
}

function Box({ box: [x1, y1, x2, y2], width, height }) {
  const sides = { x: x1 * width, y: y1 * height, width: (x2 - x1) * width, height: (y2 - y1) * height };
  return html`<rect class="edge" ...${sides} /><rect class="box" ...${sides} />`;
}

// The head of an arrow at the end of a path, in fractions of the frame.
function headOf(path, width, height) {
  const [x, y] = path.at(-1);
  const [endX, endY] = [x * width, y * height];
  const far = path.toReversed().find(([px, py]) => Math.hypot(px * width - endX, py * height - endY) > width * HEAD) ?? path[0];
  const angle = Math.atan2(endY - far[1] * height, endX - far[0] * width);
  const corner = (turn) => [(endX - width * HEAD * Math.cos(angle + turn)) / width, (endY - width * HEAD * Math.sin(angle + turn)) / height];
  return [[x, y], corner(0.5), corner(-0.5)];
}
