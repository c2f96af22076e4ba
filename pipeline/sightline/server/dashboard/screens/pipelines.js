// The pipelines of a server that supervises several, with what keeps each from running.

import { change, path, useRead } from "../api.js";
import { bytes, duration } from "../format.js";
import { html, styles, useNow } from "../lib.js";
import { Badge, Empty, ErrorBox, Loading } from "../parts/basic.js";
import { attempt } from "../parts/notices.js";
import { Still, useSeen } from "../parts/still.js";
import { isFlowing, stateOf, stateText } from "../parts/streams.js";
import { href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/wall.css");
await styles("screens/pipelines.css");

const MOST_STILLS = 4;
const STILL_EVERY_MS = 3000;
const STREAMS_EVERY_MS = 5000;
const KINDS = { ready: "good", backing_off: "bad", invalid: "bad", running: "warn", starting: "warn", ended: "faint", stopped: "faint" };
const STOPPED = new Set(["ended", "stopped", "invalid"]);

export default function Pipelines() {
  const { data, error, refresh } = useRead("pipelines", 1000);
  if (!data) return error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`;
  return html`
    <h1 class="title">${t("pipelines.title")}</h1>
    ${data.length === 0 && html`<${Empty}>${t("pipelines.none")}</${Empty}>`}
    <div class="cards">${data.map((one) => html`<${Card} key=${one.name} pipeline=${one} refresh=${refresh} />`)}</div>`;
}

function Card({ pipeline, refresh }) {
  const now = useNow() / 1000;
  const state = pipeline.ready ? "ready" : pipeline.state ?? (pipeline.running ? "running" : "ended");
  const next = pipeline.next_attempt_seconds;
  return html`<article class="card" data-pipeline=${pipeline.name}>
    <div class="card-head">
      <h2><a href=${href(pipeline.name, "")}>${pipeline.name}</a></h2>
      <${Badge} kind=${KINDS[state] ?? "calm"}>${t(`pipelines.state_${state}`)}</${Badge}>
    </div>
    ${pipeline.why && html`<p class="cause">${pipeline.why}${next > 1 && t("pipelines.next", { seconds: Math.ceil(next) })}</p>`}
    <dl class="facts">
      <div><dt>${t("pipelines.streams")}</dt><dd>${pipeline.streams ?? "–"}</dd></div>
      ${pipeline.since && html`
        <div><dt>${t("pipelines.since")}</dt><dd>${duration(now - pipeline.since)}</dd></div>
        <div><dt>${t("pipelines.restarts")}</dt><dd class=${pipeline.failures_in_a_row > 0 ? "warn" : ""}>${pipeline.restarts}</dd></div>
        <div><dt>${t("pipelines.memory")}</dt><dd>${pipeline.resident_bytes ? bytes(pipeline.resident_bytes) : "–"}</dd></div>`}
    </dl>
    ${pipeline.running && html`<${Stills} pipeline=${pipeline.name} />`}
    ${pipeline.last_exit && html`<p class="faint small">
      ${t("pipelines.lastExit", { ago: duration(now - pipeline.last_exit.at), reason: pipeline.last_exit.reason })}
    </p>`}
    ${pipeline.file && html`<${Actions} pipeline=${pipeline} refresh=${refresh} />`}
  </article>`;
}

// What the first streams of a pipeline show; asked for while the card can be seen.
function Stills({ pipeline }) {
  const [place, isSeen] = useSeen();
  const { data } = useRead(isSeen ? path(pipeline, "streams") : null, STREAMS_EVERY_MS);
  const streams = data?.slice(0, MOST_STILLS) ?? [];
  return html`<div ref=${place} class="stills">${streams.map(({ name, status }) => {
    const isAway = !status || !isFlowing(status);
    return html`<a key=${name} class="view ${isAway ? "away" : ""}" href=${href(pipeline, "camera", [name])} aria-label=${t("wall.open", { name })}>
      <${Still} pipeline=${pipeline} stream=${name} alt=${t("wall.image", { name })} everyMs=${STILL_EVERY_MS} width=${320} isOn=${!isAway} />
      <span class="still-name">${name}${isAway && status && ` · ${stateText(stateOf(status))}`}</span></a>`;
  })}
    ${data?.length > MOST_STILLS && html`<p class="faint small">${t("pipelines.more", { count: data.length - MOST_STILLS })}</p>`}
  </div>`;
}

function Actions({ pipeline, refresh }) {
  const isAdmin = useMay("admin");
  const act = (action) => async () => {
    await attempt(() => change("POST", path(pipeline.name, action)));
    refresh();
  };
  const button = (action) => html`
    <button disabled=${!isAdmin} title=${isAdmin ? "" : t("pipelines.needsAdmin")} onClick=${act(action)}>${t(`pipelines.${action}`)}</button>`;
  return html`<div class="actions">
    <span class="faint small file">${pipeline.file}</span>
    ${STOPPED.has(pipeline.state) ? button("start") : html`${button("restart")}${button("stop")}`}
  </div>`;
}
