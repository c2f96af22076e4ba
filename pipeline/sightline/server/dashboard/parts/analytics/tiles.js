// The most important numbers of a span of time, compared with the span before.

import { count, duration } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { columnsOf, mean, total } from "./sums.js";

const COMPARABLE = 0.8; // of what is known of this time has to be known of the time before

// At how many times something is known.
const known = ({ times, columns }) => times.filter((_, index) => columns.some((one) => one.values[index] !== null)).length;

/** `now` and `before` are answers of the history, `stays` that of `dwell`, `chosen` tells which columns are wanted. */
export function Tiles({ now, before, stays, staysBefore, chosen }) {
  const sum = (table, series, keep) => table && total(columnsOf(table, series, keep));
  const ended = (zones) => zones && zones.reduce((whole, one) => whole + one.stays.reduce((all, each) => all + each, 0), 0);
  const lasted = (zones) => (ended(zones) ? zones.reduce((whole, one) => whole + one.seconds, 0) / ended(zones) : null);
  const inside = (table) => table && mean(columnsOf(table, "occupancy", chosen.rule));
  const crossed = (direction) => (one) => chosen.rule(one) && one.key.endsWith(`.${direction}`);
  const tiles = [
    ["objects", sum(now, "tracks", chosen.label), sum(before, "tracks", chosen.label), count],
    ["in", sum(now, "crossings", crossed("in")), sum(before, "crossings", crossed("in")), count],
    ["out", sum(now, "crossings", crossed("out")), sum(before, "crossings", crossed("out")), count],
    ["inside", inside(now), inside(before), (value) => value.toFixed(value < 10 ? 2 : 1)],
    ["stay", lasted(stays), lasted(staysBefore), (value) => (value < 60 ? t("analytics.seconds", { count: value.toFixed(1) }) : duration(value))],
  ];
  const isComparable = before && known(before) >= COMPARABLE * known(now);
  return html`<dl class="tiles">${tiles.map(([name, value, earlier, text]) => html`<div class="panel" key=${name} data-tile=${name}>
    <dt>${t(`analytics.tile_${name}`)}</dt><dd>${value === null || value === undefined ? "–" : text(value)}</dd>
    <dd class="small faint">${compared(value, isComparable ? earlier : null)}</dd></div>`)}</dl>`;
}

function compared(value, earlier) {
  if (!earlier || value === null || value === undefined) return t("analytics.noBefore");
  const share = Math.round(100 * (value / earlier - 1));
  return t("analytics.before", { change: `${share > 0 ? "+" : share < 0 ? "−" : "±"}${Math.abs(share)} %` });
}
