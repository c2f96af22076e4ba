// All streams as tiles with live video: what each sees, how it is, and why when it is not well.

import { useStatus } from "../api.js";
import { milliseconds, rate } from "../format.js";
import { html, styles, useEffect, useKept, useRef, useState } from "../lib.js";
import { Badge, Empty, Loading } from "../parts/basic.js";
import { OverlayButtons, useOverlays } from "../parts/overlays.js";
import { Player } from "../parts/player.js";
import { causeText, factsOf, isFlowing, kindOf, presentOf, sinceText, stateOf, stateText, troubleOf } from "../parts/streams.js";
import { go, href } from "../router.js";
import { t } from "../texts/index.js";

await styles("screens/wall.css");

const MANY = 7;
const SIZES = { small: ["S", "wall.sizeSmall"], medium: ["M", "wall.sizeMedium"], large: ["L", "wall.sizeLarge"] };
const ORDERS = { given: "wall.orderGiven", name: "wall.orderName", trouble: "wall.orderTrouble" };
const byName = (one, other) => one.name.localeCompare(other.name, undefined, { numeric: true });
const SORTS = { given: () => 0, name: byName, trouble: (one, other) => troubleOf(one) - troubleOf(other) };

export default function Wall({ pipeline, query }) {
  const { data } = useStatus(pipeline);
  const [size, setSize] = useKept("wallSize", "medium");
  const [order, setOrder] = useKept("wallOrder", "given");
  const [overlays, setOverlays] = useOverlays();
  const wall = useRef();
  if (!data) return html`<${Loading} />`;

  const shown = data.streams.filter((stream) => matches(stream, query)).sort(SORTS[order] ?? SORTS.given);
  return html`<h1 class="hidden">${t("wall.title")}</h1>
    <${Changes} streams=${data.streams} />
    <div class="bar wall-bar">
      <${Filter} pipeline=${pipeline} query=${query} streams=${data.streams} shown=${shown.length} />
      <${Choice} label=${t("wall.order")} value=${order} options=${ORDERS} onChange=${setOrder} />
      <div class="segments" role="group" aria-label=${t("wall.allSizes")}>${Object.entries(SIZES).map(([name, [sign, text]]) => html`
        <button aria-pressed=${name === size} aria-label=${t(text)} title=${t(text)} onClick=${() => setSize(name)}>${sign}</button>`)}
      </div>
      <details class="menu"><summary>${t("wall.overlays")}</summary>
        <${OverlayButtons} overlays=${overlays} onChange=${setOverlays} /></details>
      <button class="full" onClick=${() => wall.current?.requestFullscreen()}>${t("wall.fullScreen")}</button>
    </div>
    ${data.streams.length === 0 && html`<${Empty}>${t("wall.none")}</${Empty}>`}
    ${data.streams.length > 0 && shown.length === 0 && html`<${Empty}>${t("wall.noMatch")}</${Empty}>`}
    <ul class="wall tiles-${size}" ref=${wall} aria-label=${t("wall.streams")}>
      ${shown.map((stream) => html`<${Tile} key=${stream.name} pipeline=${pipeline} stream=${stream} overlays=${overlays} />`)}
    </ul>`;
}

function matches(stream, { name = "", state = "" }) {
  if (!stream.name.toLowerCase().includes(name.trim().toLowerCase())) return false;
  return !state || (state === "away" ? ["bad", "warn"].includes(kindOf(stateOf(stream))) : stateOf(stream) === state);
}

function Filter({ pipeline, query, streams, shown }) {
  if (streams.length < MANY && !query.name && !query.state) return null;
  const choose = (change) => go(href(pipeline, "wall", [], { ...query, ...change }), { replace: true });
  const states = [...new Set(streams.map(stateOf))].sort();
  const options = { "": "wall.all", away: "wall.away", ...Object.fromEntries(states.map((state) => [state, `wall.state_${state}`])) };
  return html`
    <input type="search" placeholder=${t("wall.filter")} aria-label=${t("wall.filter")} value=${query.name ?? ""}
      onInput=${(event) => choose({ name: event.target.value })} />
    <${Choice} label=${t("wall.filterState")} value=${query.state ?? ""} options=${options} onChange=${(state) => choose({ state })} />
    <span class="faint small" role="status">${t("wall.shown", { shown, all: streams.length })}</span>`;
}

const Choice = ({ label, value, options, onChange }) => html`
  <label><span class="hidden">${label}</span>
    <select value=${value} title=${label} onChange=${(event) => onChange(event.target.value)}>
      ${Object.entries(options).map(([name, text]) => html`<option value=${name}>${t(text)}</option>`)}
    </select></label>`;

// Tell those who do not see it what has changed.
function Changes({ streams }) {
  const known = useRef(new Map());
  const [text, setText] = useState("");
  useEffect(() => {
    const states = new Map(streams.map((stream) => [stream.name, stateOf(stream)]));
    const changed = [...states].filter(([name, state]) => known.current.has(name) && known.current.get(name) !== state);
    known.current = states;
    if (changed.length) setText(changed.map(([name, state]) => t("wall.change", { name, state: stateText(state) })).join(", "));
  }, [streams]);
  return html`<p class="hidden" role="status">${text}</p>`;
}

function Tile({ pipeline, stream, overlays }) {
  const state = stateOf(stream);
  const isAway = !isFlowing(stream);
  return html`<li class="tile ${isAway ? "away" : ""}" data-stream=${stream.name} data-state=${state}>
    <a class="view" href=${href(pipeline, "camera", [stream.name])} aria-label=${t("wall.open", { name: stream.name })}>
      <${Player} pipeline=${pipeline} stream=${stream.name} overlays=${overlays} />
      ${isAway && html`<p class="away-note"><strong>${sinceText(stream)}</strong></p>`}
    </a>
    <div class="under">
      <div class="card-head"><h2>${stream.name}</h2><${Badge} kind=${kindOf(state)}>${stateText(state)}</${Badge}></div>
      ${!isAway && html`<${Numbers} stream=${stream} />`}
      ${causeText(stream) && html`<p class="cause">${causeText(stream)}</p>`}
      <p class="faint small facts-line">${factsOf(stream).join(" · ")}</p>
    </div>
  </li>`;
}

function Numbers({ stream }) {
  const present = presentOf(stream);
  return html`<p class="numbers">
    <span>${t("wall.rate", { rate: rate(stream.rates.finished) })}</span>
    <span title=${t("wall.latency", { time: milliseconds(stream.latency_ms.p95) })}>${milliseconds(stream.latency_ms.p50)}</span>
    ${stream.rates.dropped > 0 && html`<span class="warn">${t("wall.droppedNow", { rate: rate(stream.rates.dropped) })}</span>`}
    ${present.map(([label, count]) => html`<span class="chip" data-label=${label}>${t("wall.present", { label, count })}</span>`)}
  </p>`;
}
