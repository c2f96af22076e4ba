// The cameras as a list: add one after its test image was seen, edit, pause and remove.

import { change, path, useRead, useStatus } from "../api.js";
import { rate } from "../format.js";
import { html, styles, useState } from "../lib.js";
import { Badge, Dialog, Empty, ErrorBox, Loading } from "../parts/basic.js";
import { CameraForm } from "../parts/camera-form.js";
import { attempt, notify } from "../parts/notices.js";
import { Still } from "../parts/still.js";
import { causeText, isFlowing, kindOf, stateOf, stateText } from "../parts/streams.js";
import { go, href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/cameras.css");

const STREAMS_EVERY_MS = 2000;
const STILL_EVERY_MS = 3000;

export default function Cameras({ pipeline, rest }) {
  const streams = useRead(path(pipeline, "streams"), STREAMS_EVERY_MS);
  const status = useStatus(pipeline);
  const isAdmin = useMay("admin");
  const [leaving, setLeaving] = useState(null);
  if (!streams.data) return streams.error ? html`<${ErrorBox} error=${streams.error} />` : html`<${Loading} />`;
  const back = () => {
    streams.refresh();
    go(href(pipeline, "cameras"));
  };
  const [what, name] = rest;
  const edited = what === "edit" ? streams.data.find((one) => one.name === name) : null;
  if (isAdmin && (what === "new" || edited)) {
    const taken = streams.data.map((one) => one.name);
    return html`<${CameraForm} key=${name ?? ""} pipeline=${pipeline} stream=${edited} taken=${taken} onDone=${back} />`;
  }
  const states = new Map(status.data?.streams.map((stream) => [stream.name, stream]));
  return html`<div class="title-line"><h1 class="title">${t("cameras.title")}</h1>
      ${isAdmin
        ? html`<div class="bar"><a class="button main" href=${href(pipeline, "cameras", ["new"])}>${t("cameras.add")}</a></div>`
        : html`<span class="faint small">${t("cameras.needsAdmin")}</span>`}
    </div>
    ${streams.data.length === 0 && html`<${Empty}>${t("cameras.none")}</${Empty}>`}
    <ul class="cameras">${streams.data.map((one) => html`
      <${Row} key=${one.name} pipeline=${pipeline} one=${one} stream=${states.get(one.name)} onRemove=${() => setLeaving(one.name)} />`)}</ul>
    ${leaving && html`<${Removing} pipeline=${pipeline} name=${leaving} onClose=${() => { setLeaving(null); streams.refresh(); }} />`}`;
}

function Row({ pipeline, one, stream, onRemove }) {
  const isAdmin = useMay("admin");
  const mayPause = useMay("operator");
  const state = stream ? stateOf(stream) : null;
  const isAway = !stream || !isFlowing(stream);
  const isPaused = state === "paused";
  const rest = () => attempt(() => change("POST", path(pipeline, "streams", one.name, isPaused ? "resume" : "pause"), undefined, { patienceMs: 40_000 }));
  const { uri } = one.source;
  return html`<li class="camera-row ${isAway ? "away" : ""}" data-stream=${one.name}>
    <a class="view" href=${href(pipeline, "camera", [one.name])} aria-label=${t("cameras.image", { name: one.name })}>
      <${Still} pipeline=${pipeline} stream=${one.name} alt="" width=${320} everyMs=${STILL_EVERY_MS} isOn=${!isAway} /></a>
    <div class="what">
      <h2>${one.name} ${state && html`<${Badge} kind=${kindOf(state)}>${stateText(state)}</${Badge}>`}</h2>
      <code>${uri ?? Object.entries(one.source).map(([key, value]) => `${key}: ${JSON.stringify(value)}`).join(", ")}</code>
      <span class="small faint">${stream && [stream.codec, stream.size?.join("×"), !isAway && `${rate(stream.rates.finished)} ${t("cameras.fps")}`].filter(Boolean).join(" · ")}</span>
      ${stream && causeText(stream) && html`<p class="cause">${causeText(stream)}</p>`}
    </div>
    <div class="actions">
      ${mayPause && stream && html`<button onClick=${rest} aria-label=${`${t(isPaused ? "cameras.resume" : "cameras.pause")} ${one.name}`}>${t(isPaused ? "cameras.resume" : "cameras.pause")}</button>`}
      ${isAdmin && (uri
        ? html`<a class="button" href=${href(pipeline, "cameras", ["edit", one.name])} aria-label=${`${t("cameras.edit")} ${one.name}`}>${t("cameras.edit")}</a>`
        : html`<a class="button" href=${href(pipeline, "configuration")} title=${t("cameras.otherKind")} aria-label=${`${t("cameras.edit")} ${one.name}`}>${t("cameras.edit")}</a>`)}
      ${isAdmin && html`<button class="danger" onClick=${onRemove} aria-label=${`${t("cameras.remove")} ${one.name}`}>${t("cameras.remove")}</button>`}
    </div>
  </li>`;
}

function Removing({ pipeline, name, onClose }) {
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const remove = async () => {
    setBusy(true);
    try {
      await change("DELETE", path(pipeline, "streams", name), undefined, { patienceMs: 60_000 });
      notify(t("cameras.removed", { name }));
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${t("cameras.remove")} onClose=${onClose}>
    <p>${t("cameras.removeQuestion", { name })}</p>
    <${ErrorBox} error=${error} />
    <div class="bar actions"><button class="danger" disabled=${isBusy} onClick=${remove}>${t("cameras.remove")}</button>
      <button onClick=${onClose}>${t("cameras.cancel")}</button></div>
  </${Dialog}>`;
}
