// All streams as tiles.

import { useStatus } from "../api.js";
import { rate } from "../format.js";
import { html, styles } from "../lib.js";
import { Badge, Loading } from "../parts/basic.js";
import { t } from "../texts/index.js";

await styles("screens/wall.css");

const KINDS = { live: "good", stalled: "warn", lost: "bad", auth_failed: "bad", failed: "bad", ended: "faint" };

export default function Wall({ pipeline }) {
  const { data } = useStatus(pipeline);
  if (!data) return html`<${Loading} />`;
  return html`<h1 class="hidden">${t("wall.title")}</h1>
    <div class="wall">${data.streams.map((stream) => html`<${Tile} key=${stream.name} stream=${stream} />`)}</div>`;
}

function Tile({ stream }) {
  return html`<article class="tile" data-stream=${stream.name}>
    <h2>${stream.name}</h2>
    <${Badge} kind=${KINDS[stream.state] ?? "calm"}>${stream.state}</${Badge}>
    <span>${t("wall.rate", { rate: rate(stream.rates.finished) })}</span>
  </article>`;
}
