// A frame with boxes over it, and the same boxes as a table: whoever points at one sees the other.

import { html, useState } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Empty } from "../basic.js";

const MOST_LABELS = 40; // more would hide the frame
const MOST_ROWS = 100;

/**
 * Boxes over an image. A box is `{label, confidence, box, kind, track_id?, attributes?}` with `box` in pixels of the frame
 * of `size`; `kind` is before, after, kept, would, lower or suppressed. `part` are corners of a part to outline.
 */
export function FrameWithBoxes({ image, alt, note, size, boxes, part }) {
  const [marked, setMarked] = useState(null);
  const [width, height] = size;
  const textSize = Math.max(width, height) / 46;
  const shown = boxes.slice(0, MOST_ROWS);
  const isNamed = (one) => one.kind !== "suppressed" && one.kind !== "lower";
  const areFew = shown.filter(isNamed).length <= MOST_LABELS;
  return html`<div class="inspect-frame" style=${{ aspectRatio: `${width} / ${height}` }}>
      ${image ? html`<img src=${image} alt=${alt} />` : html`<p>${note}</p>`}
      <svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true">
        ${part && html`<polygon class="part" points=${part.map((corner) => corner.join(",")).join(" ")} />`}
        ${[...shown.entries()].reverse().map(([at, one]) => html`
          <rect key=${at} class="${one.kind} ${marked === at ? "marked" : ""}" x=${one.box[0]} y=${one.box[1]}
            width=${one.box[2] - one.box[0]} height=${one.box[3] - one.box[1]} onPointerEnter=${() => setMarked(at)} onPointerLeave=${() => setMarked(null)}>
            <title>${nameOf(one)}</title></rect>`)}
        ${shown.map((one, at) => (marked === at || (marked === null && areFew && isNamed(one))) && html`
          <text key=${at} x=${one.box[0] + textSize * 0.2} y=${Math.max(one.box[1] - textSize * 0.3, textSize)} font-size=${textSize}>${nameOf(one)}</text>`)}
      </svg>
    </div>
    <${Rows} boxes=${shown} all=${boxes.length} marked=${marked} setMarked=${setMarked} />`;
}

const nameOf = ({ label, confidence, track_id }) => [track_id ?? null, label, confidence.toFixed(2)].filter((one) => one !== null).join(" ");

function Rows({ boxes, all, marked, setMarked }) {
  if (!boxes.length) return html`<${Empty}>${t("inspect.noBoxes")}</${Empty}>`;
  const hasTracks = boxes.some((one) => typeof one.track_id === "number");
  const isRaw = boxes.some((one) => one.kind !== "before" && one.kind !== "after");
  const hasAttributes = boxes.some((one) => Object.keys(one.attributes ?? {}).length);
  return html`<div class="wide inspect-rows" tabindex="0" role="region" aria-label=${t("inspect.boxes")}><table>
    <thead><tr>${["label", "confidence", ...(hasTracks ? ["track"] : []), "box", ...(hasAttributes ? ["attributes"] : []), ...(isRaw ? ["what"] : [])].map((name) => html`
      <th scope="col">${t(`inspect.${name}`)}</th>`)}</tr></thead>
    <tbody>${boxes.map((one, at) => html`
      <tr key=${at} class=${marked === at ? "marked" : ""} onPointerEnter=${() => setMarked(at)} onPointerLeave=${() => setMarked(null)}>
        <td><button class="plain" aria-pressed=${marked === at} onClick=${() => setMarked(marked === at ? null : at)}><i class="inspect-key ${one.kind}"></i>${one.label}</button></td>
        <td>${one.confidence.toFixed(3)}</td>
        ${hasTracks && html`<td>${one.track_id ?? "–"}</td>`}
        <td>${one.box.map((value) => value.toFixed(0)).join(" ")}</td>
        ${hasAttributes && html`<td>${Object.entries(one.attributes).map(([name, value]) => `${name}: ${value}`).join(", ")}</td>`}
        ${isRaw && html`<td>${t(`inspect.kind_${one.kind}`)}</td>`}
      </tr>`)}</tbody></table>
    ${all > boxes.length && html`<p class="faint small">${t("inspect.moreBoxes", { count: all - boxes.length })}</p>`}
  </div>`;
}
