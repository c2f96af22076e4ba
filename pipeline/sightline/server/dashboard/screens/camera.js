// One camera: what it shows, what is counted, how it is, what it has done in the last hours; pause, record, take an image.

import { ask, change, path, useRead, useStatus } from "../api.js";
import { count, milliseconds, rate } from "../format.js";
import { html, styles, useEffect, useKept, useRef, useState } from "../lib.js";
import { Badge, ErrorBox, Loading, Panel } from "../parts/basic.js";
import { CameraTimeline } from "../parts/camera-timeline.js";
import { attempt, notify } from "../parts/notices.js";
import { OverlayButtons, useOverlays } from "../parts/overlays.js";
import { Player } from "../parts/player.js";
import { RecordList, useNewest } from "../parts/records.js";
import { causeText, factsOf, isFlowing, kindOf, presentOf, sinceText, stateOf, stateText } from "../parts/streams.js";
import { go, href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/wall.css");
await styles("screens/event.css");
await styles("screens/camera.css");

const SECONDS = [10, 30, 60, 300];
const MOST_RECORDS = 30;

export default function Camera({ pipeline, rest: [name] }) {
  const { data, refresh } = useStatus(pipeline);
  const streams = data?.streams ?? [];
  useKeys(pipeline, streams, name);
  if (!data) return html`<${Loading} />`;
  const stream = streams.find((one) => one.name === name);
  return html`<${Head} pipeline=${pipeline} streams=${streams} stream=${stream} name=${name} />
    ${stream
      ? html`<${Shown} key=${name} pipeline=${pipeline} stream=${stream} refresh=${refresh} />`
      : html`<${ErrorBox} error=${{ message: t("camera.gone", { name }) }} />`}`;
}

// The arrow keys go to the previous and the next camera, unless something else has use for them.
function useKeys(pipeline, streams, name) {
  const known = useRef();
  known.current = { before: neighbour(streams, name, -1), after: neighbour(streams, name, 1) };
  useEffect(() => {
    const press = (event) => {
      const to = { ArrowLeft: known.current.before, ArrowRight: known.current.after }[event.key];
      if (to === undefined || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target.closest("input, select, textarea, video, [role=slider], dialog, .wide")) return;
      event.preventDefault();
      go(href(pipeline, "camera", [to]));
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [pipeline]);
}

function neighbour(streams, name, step) {
  const index = streams.findIndex((stream) => stream.name === name);
  return index < 0 || streams.length < 2 ? undefined : streams[(index + step + streams.length) % streams.length].name;
}

function Head({ pipeline, streams, stream, name }) {
  const turn = (step, sign, text) => {
    const to = neighbour(streams, name, step);
    return to !== undefined && html`<a class="turn" href=${href(pipeline, "camera", [to])} title=${to} aria-label=${t(text, { name: to })}>${sign}</a>`;
  };
  return html`<div class="bar camera-head">
    <a href=${href(pipeline, "wall")}>${t("camera.back")}</a>
    <h1>${name}</h1>
    ${stream && html`<${Badge} kind=${kindOf(stateOf(stream))}>${stateText(stateOf(stream))}</${Badge}>`}
    <span class="turns">${turn(-1, "‹", "camera.before")}${turn(1, "›", "camera.after")}</span>
  </div>`;
}

function Shown({ pipeline, stream, refresh }) {
  const view = useRef();
  const [overlays, setOverlays] = useOverlays();
  const [played, setPlayed] = useState({});
  const isAway = !isFlowing(stream);
  return html`<div class="camera">
    <div class="camera-main">
      <div class="view ${isAway ? "away" : ""}" ref=${view} data-stream=${stream.name}>
        <${Player} pipeline=${pipeline} stream=${stream.name} overlays=${overlays} onState=${setPlayed} />
        ${isAway && html`<p class="away-note"><strong>${sinceText(stream)}</strong></p>`}
      </div>
      ${causeText(stream) && html`<p class="cause" role="status">${causeText(stream)}</p>`}
      <${Actions} pipeline=${pipeline} stream=${stream} view=${view} refresh=${refresh} />
      ${played.drawn ? html`<p class="faint small">${t("camera.drawn")}</p>` : html`<${OverlayButtons} overlays=${overlays} onChange=${setOverlays} />`}
      <${CameraTimeline} pipeline=${pipeline} stream=${stream.name} />
    </div>
    <div class="camera-side">
      <${Present} stream=${stream} />
      <${Rules} pipeline=${pipeline} stream=${stream} />
      <${Health} pipeline=${pipeline} stream=${stream} played=${played} />
      <${Newest} pipeline=${pipeline} stream=${stream} />
    </div>
  </div>`;
}

function Actions({ pipeline, stream, view, refresh }) {
  const isOperator = useMay("operator");
  const { data: elements } = useRead(path(pipeline, "elements"));
  const [seconds, setSeconds] = useKept("recordSeconds", 30);
  const [isBusy, setBusy] = useState(false);
  const isPaused = stream.state === "paused";
  const isOver = stream.state === "ended" || stream.state === "failed";
  const records = elements?.some((element) => element.element === "record");
  const hint = isOperator ? "" : t("camera.needsOperator");
  const act = (work) => async () => {
    setBusy(true);
    await attempt(work);
    setBusy(false);
    refresh();
  };
  const pause = act(() => change("POST", path(pipeline, "streams", stream.name, isPaused ? "resume" : "pause"), undefined, { patienceMs: 60_000 }));
  const record = act(async () => {
    await change("POST", path(pipeline, "streams", stream.name, "record"), { after: `${seconds}s` });
    notify(t("camera.recordingNow", { seconds }));
  });
  const take = act(async () => save(await (await ask(path(pipeline, "streams", stream.name, "snapshot"), { method: "POST" })).blob(), stream.name));
  return html`<div class="bar">
    <button id="pause" disabled=${!isOperator || isBusy || isOver} title=${hint} onClick=${pause}>${t(isPaused ? "camera.resume" : "camera.pause")}</button>
    <span class="segments">
      <button id="record" disabled=${!isOperator || isBusy || !records} title=${hint || (records ? "" : t("camera.needsRecord"))} onClick=${record}>
        <span class="dot" aria-hidden="true"></span>${t("camera.record")}</button>
      <select aria-label=${t("camera.recordFor")} value=${seconds} disabled=${!records} onChange=${(event) => setSeconds(Number(event.target.value))}>
        ${SECONDS.map((one) => html`<option value=${one}>${t("camera.seconds", { count: one })}</option>`)}
      </select></span>
    <button id="snapshot" disabled=${!isOperator || isBusy} title=${hint} onClick=${take}>${t("camera.snapshot")}</button>
    <button onClick=${() => view.current?.requestFullscreen()}>${t("wall.fullScreen")}</button>
  </div>`;
}

// Let the browser keep an image as a file that is named by camera and time.
function save(blob, name) {
  const when = new Date().toISOString().replace(/[:.]/g, "-").slice(0, 19);
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: `${name.replace(/[^\w-]+/g, "_")}-${when}.jpg` });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

function Present({ stream }) {
  const present = presentOf(stream);
  return html`<${Panel} title=${t("camera.present")}>
    ${present.length === 0
      ? html`<p class="faint">${t(isFlowing(stream) ? "camera.nobody" : "camera.noFrames")}</p>`
      : html`<dl class="big">${present.map(([label, number]) => html`<div data-label=${label}><dt>${label}</dt><dd>${number}</dd></div>`)}</dl>`}
  </${Panel}>`;
}

function Rules({ pipeline, stream }) {
  const { data } = useRead(path(pipeline, "counts"), 1000);
  const counted = Object.entries(data?.streams[stream.name]?.rules ?? {}).flatMap(([element, rules]) =>
    Object.entries(rules).map(([rule, counts]) => ({ id: `${element}/${rule}`, rule, counts: Object.entries(counts) })));
  if (!counted.length) return null;
  return html`<${Panel} title=${t("camera.rules")}>
    <dl class="rules">${counted.map(({ id, rule, counts }) => html`
      <div key=${id} data-rule=${rule}><dt>${rule}</dt>
        ${counts.map(([name, number]) => html`<dd><span class="faint">${name.replaceAll("_", " ")}</span> ${count(number)}</dd>`)}</div>`)}
    </dl>
  </${Panel}>`;
}

// Where it comes from, without secrets.
const sourceText = (source) => source.uri ?? Object.keys(source)[0] ?? "";

function Health({ pipeline, stream, played }) {
  const { data } = useRead(path(pipeline, "streams", stream.name));
  const dropped = Object.values(stream.dropped).reduce((sum, one) => sum + one, 0);
  const facts = [
    ["state", sinceText(stream)],
    ["rate", rate(stream.rates.finished)],
    ["received", rate(stream.rates.received)],
    ["latency", t("camera.latencies", { p50: milliseconds(stream.latency_ms.p50), p95: milliseconds(stream.latency_ms.p95) })],
    ["screen", played.behindMs === undefined ? "–" : milliseconds(played.behindMs)],
    ["frames", count(stream.processed)],
    ["dropped", count(dropped), dropped > 0 && stream.rates.dropped > 0],
    ["reconnects", count(stream.reconnects), stream.reconnects > 0],
    ["decoder", stream.decoder ?? "–"],
    ["source", data ? sourceText(data.source) : ""],
  ];
  return html`<${Panel} title=${t("camera.health")}>
    <dl class="facts">${facts.map(([name, text, isWarning]) => html`
      <div data-of=${name}><dt>${t(`camera.${name}`)}</dt><dd class=${isWarning ? "warn" : ""}>${text}</dd></div>`)}</dl>
    <p class="faint small">${factsOf(stream).join(" · ")}</p>
  </${Panel}>`;
}

function Newest({ pipeline, stream }) {
  const records = useNewest(pipeline, stream.name, MOST_RECORDS);
  return html`<${Panel} title=${t("camera.newest")}>
    ${records ? html`<div class="newest" tabindex="0" role="log" aria-label=${t("camera.newest")}>
      <${RecordList} pipeline=${pipeline} records=${records} empty=${t("camera.noEvents")} /></div>` : html`<${Loading} />`}
  </${Panel}>`;
}
