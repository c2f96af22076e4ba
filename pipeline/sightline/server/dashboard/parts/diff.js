// The difference of two texts by lines (Myers, "An O(ND) Difference Algorithm", 1986), and how it is shown.

import { html } from "../lib.js";
import { t } from "../texts/index.js";

const AROUND = 3;
const MOST_CHANGES = 2000;

/** The lines of two texts: `[{kind, text, before, after}]`; kind is same, added or removed, numbers are from 1. */
export function difference(before, after) {
  const [one, other] = [linesOf(before), linesOf(after)];
  const trace = [];
  const furthest = new Map([[1, 0]]);
  for (let changes = 0; changes <= Math.min(one.length + other.length, MOST_CHANGES); changes += 1) {
    trace.push(new Map(furthest));
    for (let diagonal = -changes; diagonal <= changes; diagonal += 2) {
      const isDown = diagonal === -changes || (diagonal !== changes && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
      let x = isDown ? furthest.get(diagonal + 1) : furthest.get(diagonal - 1) + 1;
      while (x < one.length && x - diagonal < other.length && one[x] === other[x - diagonal]) x += 1;
      furthest.set(diagonal, x);
      if (x >= one.length && x - diagonal >= other.length) return backwards(trace, one, other);
    }
  }
  return [...one.map((text, at) => removed(text, at)), ...other.map((text, at) => added(text, at))]; // all of it differs
}

const linesOf = (text) => text.replace(/\n$/, "").split("\n");
const removed = (text, at) => ({ kind: "removed", text, before: at + 1, after: null });
const added = (text, at) => ({ kind: "added", text, before: null, after: at + 1 });

function backwards(trace, one, other) {
  const found = [];
  let [x, y] = [one.length, other.length];
  for (let changes = trace.length - 1; changes >= 0; changes -= 1) {
    const furthest = trace[changes];
    const diagonal = x - y;
    const isDown = diagonal === -changes || (diagonal !== changes && furthest.get(diagonal - 1) < furthest.get(diagonal + 1));
    const from = isDown ? diagonal + 1 : diagonal - 1;
    const [fromX, fromY] = [furthest.get(from), furthest.get(from) - from];
    while (x > fromX && y > fromY && x > 0 && y > 0) {
      x -= 1;
      y -= 1;
      found.push({ kind: "same", text: one[x], before: x + 1, after: y + 1 });
    }
    if (changes === 0) break;
    found.push(isDown ? added(other[fromY], fromY) : removed(one[fromX], fromX));
    [x, y] = [fromX, fromY];
  }
  return found.reverse();
}

const SIGNS = { same: " ", added: "+", removed: "-" };
const NAMES = { added: "configuration.added", removed: "configuration.removed" };

/** Show what differs between two texts, with some lines around; `label` says what is compared. */
export function Diff({ before, after, label }) {
  const lines = difference(before, after);
  const near = new Set();
  lines.forEach(({ kind }, at) => {
    if (kind !== "same") for (let one = at - AROUND; one <= at + AROUND; one += 1) near.add(one);
  });
  if (!near.size) return html`<p class="empty">${t("configuration.noDifference")}</p>`;
  const rows = [];
  lines.forEach((line, at) => {
    if (near.has(at)) rows.push(html`<${Line} key=${at} ...${line} />`);
    else if (near.has(at - 1) && at < lines.length - 1) rows.push(html`<tr key=${at} class="gap"><td colspan="3">⋯</td></tr>`);
  });
  const count = (kind) => lines.filter((line) => line.kind === kind).length;
  return html`<div>
    <p class="small faint diff-sum">${t("configuration.differenceSum", { added: count("added"), removed: count("removed") })}</p>
    <div class="diff" tabindex="0" role="region" aria-label=${label}>
      <table><caption class="hidden">${label}</caption><tbody>${rows}</tbody></table>
    </div>
  </div>`;
}

const Line = ({ kind, text, before, after }) => html`<tr class=${kind}>
  <td class="number">${before ?? ""}</td><td class="number">${after ?? ""}</td>
  <td><span class="sign" aria-hidden="true">${SIGNS[kind]}</span>${NAMES[kind] && html`<span class="hidden">${t(NAMES[kind])} </span>`}${text}</td>
</tr>`;
