// The pattern of a week: how many come on average in each hour of each day.

import { html, useMemo } from "../../lib.js";
import { LANGUAGE, t } from "../../texts/index.js";
import { Empty, Loading, Panel } from "../basic.js";
import { Exports } from "./chart.js";
import { HEAT_GRADIENT, heatColour, useColours } from "./colours.js";
import { saveCsv, savePng } from "./export.js";

const CELL = { width: 26, height: 24, left: 44, top: 18 };
const HOURS = [...Array(24).keys()];
const weekday = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short" });
const DAYS = [...Array(7).keys()].map((day) => weekday.format(new Date(2024, 0, 1 + day))); // a Monday

/** `cells` are 7 rows (Monday first) of 24 numbers, null where nothing is known; undefined until they are there. */
export function WeekPattern({ cells, file, note, hint }) {
  const title = t("analytics.week");
  const colours = useColours();
  const most = useMemo(() => Math.max(0, ...(cells ?? []).flat().filter((value) => value !== null)), [cells]);
  if (!most) return html`<${Panel} title=${title}>${cells ? html`<${Empty}>${hint}</${Empty}>` : html`<${Loading} />`}</${Panel}>`;
  const csv = () => saveCsv(file, [t("analytics.day"), ...HOURS.map(hourText)], cells.map((row, day) => [DAYS[day], ...row]));
  const png = () => savePng(file, drawn(cells, most, colours), { title, colours });
  return html`<${Panel} title=${title} actions=${html`<${Exports} what=${title} onCsv=${csv} onPng=${png} />`}>
    <p class="faint small">${note}</p>
    <div class="wide" tabindex="0" role="region" aria-label=${title}>
      <table class="week">
        <thead><tr><td></td>${HOURS.map((hour) => html`<th scope="col"><span class=${hour % 3 ? "hidden" : ""}>${hour}</span></th>`)}</tr></thead>
        <tbody>${cells.map((row, day) => html`<tr><th scope="row">${DAYS[day]}</th>
          ${row.map((value, hour) => html`<td title=${`${DAYS[day]} ${hourText(hour)}: ${text(value)}`} style=${{ background: colour(value, most) }}>
            <span class="hidden">${text(value)}</span></td>`)}</tr>`)}</tbody>
      </table>
    </div>
    <${Scale} low="0" high=${text(most)} />
  </${Panel}>`;
}

/** The colour scale with the numbers at its ends. */
export const Scale = ({ low, high }) => html`<p class="scale small faint"><span>${low}</span>
  <span class="gradient" style=${{ background: HEAT_GRADIENT }}></span><span>${high}</span></p>`;

const hourText = (hour) => `${String(hour).padStart(2, "0")}:00`;
const text = (value) => (value === null ? "–" : String(+value.toFixed(1)));
const colour = (value, most) => (value === null ? "transparent" : `rgb(${heatColour(value / most).join(" ")})`);

function drawn(cells, most, colours) {
  const scale = window.devicePixelRatio || 1;
  const canvas = document.createElement("canvas");
  canvas.width = (CELL.left + 24 * CELL.width) * scale;
  canvas.height = (CELL.top + 7 * CELL.height) * scale;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.font = "12px system-ui, sans-serif";
  cells.forEach((row, day) => {
    context.fillStyle = colours.text;
    context.fillText(DAYS[day], 0, CELL.top + (day + 0.7) * CELL.height);
    row.forEach((value, hour) => {
      context.fillStyle = value === null ? colours.line : colour(value, most);
      context.fillRect(CELL.left + hour * CELL.width, CELL.top + day * CELL.height, CELL.width - 2, CELL.height - 2);
    });
  });
  context.fillStyle = colours.faint;
  for (const hour of HOURS.filter((one) => one % 3 === 0)) context.fillText(String(hour), CELL.left + hour * CELL.width, 12);
  return canvas;
}
