// A chart with all that belongs to it: heading, legend with the numbers under the pointer, table, and export.

import { html, useRef, useState } from "../../lib.js";
import { Empty, Loading, Panel, Table } from "../basic.js";
import { t } from "../../texts/index.js";
import { useColours } from "./colours.js";
import { saveCsv, savePng } from "./export.js";
import { Plot } from "./plot.js";

const SHOWN_ROWS = 400;

/**
 * A chart. `series` have `{name, values}`; `places` are texts for the places of values, for legend and table; `text`
 * shows a value. Without series it shows `hint`, which says what is missing; they are undefined until they are known.
 * The rest goes to `Plot`.
 */
export function Chart({ title, file, series, places, placeTitle, text, hint, note, ...rest }) {
  const colours = useColours();
  const [hovered, setHovered] = useState(null);
  const canvas = useRef(null);
  if (!series?.length) return html`<${Panel} title=${title}>${series ? html`<${Empty}>${hint}</${Empty}>` : html`<${Loading} />`}</${Panel}>`;
  const coloured = series.map((one, index) => ({ colour: colours.kinds[(one.kindIndex ?? index) % colours.kinds.length], ...one }));
  const head = [placeTitle, ...series.map((one) => one.name)];
  const rows = places.map((place, index) => [place, ...series.map((one) => one.values[index] ?? null)]);
  const png = () => savePng(file, canvas.current, { title, legend: coloured, colours });
  return html`<${Panel} title=${title} actions=${html`<${Exports} what=${title} onCsv=${() => saveCsv(file, head, rows)} onPng=${png} />`}>
    <ul class="chart-legend">${coloured.map((one) => html`<li key=${one.name}>
      <${Swatch} colour=${one.colour} dash=${one.dash} /><span>${one.name}</span>
      ${hovered !== null && html`<b>${shown(one.values[hovered], text)}</b>`}</li>`)}
      <li class="faint chart-place">${hovered === null ? note : places[hovered]}</li></ul>
    <${Plot} ...${rest} series=${coloured} colours=${colours} label=${t("analytics.chartOf", { title })}
      onHover=${setHovered} onDrawn=${(drawn) => (canvas.current = drawn)} />
    <${Numbers} title=${title} head=${head} rows=${rows} text=${text} />
  </${Panel}>`;
}

const shown = (value, text) => (value === null || value === undefined ? "–" : text(value));

const Swatch = ({ colour, dash }) => html`<span class="swatch" style=${{ background: dash ? `repeating-linear-gradient(to right, ${colour} 0 3px, transparent 3px 5px)` : colour }}></span>`;

/** The buttons that save something as CSV and PNG. */
export const Exports = ({ what, onCsv, onPng }) => html`<span class="exports">
  <button class="plain" onClick=${onCsv} aria-label=${t("analytics.saveAs", { what, format: "CSV" })}>CSV</button>
  <button class="plain" onClick=${onPng} aria-label=${t("analytics.saveAs", { what, format: "PNG" })}>PNG</button></span>`;

/** The numbers of a chart as a table that opens. */
export const Numbers = ({ title, head, rows, text }) => html`<details class="numbers">
  <summary>${t("analytics.asTable")}</summary>
  <${Table} label=${title} head=${head} rows=${rows.slice(0, SHOWN_ROWS).map(([place, ...values]) => [place, ...values.map((value) => shown(value, text))])} />
</details>`;
