// One event: what was seen, why it is one, the clip, and the record as it is.

import { address, path, useRead } from "../../api.js";
import { dateAndTime, percent } from "../../format.js";
import { html, useEffect, useKept, useRef } from "../../lib.js";
import { href } from "../../router.js";
import { t } from "../../texts/index.js";
import { Badge, Dialog, ErrorBox, Loading } from "../basic.js";
import { textOf } from "../records.js";
import { Clip } from "./clip.js";
import { Scene } from "./scene.js";

const RETRY_MS = 3000;
const VIEWS = ["scene", "clip"];
const WHY = {
  absence: "events.whyAbsence",
  camera_covered: "events.whyCameraCovered",
  camera_defocused: "events.whyCameraDefocused",
  camera_frozen: "events.whyCameraFrozen",
  camera_turned: "events.whyCameraTurned",
  combined: "events.whyCombined",
  direction: "events.whyDirection",
  drift: "events.whyDrift",
  flow: "events.whyFlow",
  left: "events.whyLeft",
  loitering: "events.whyLoitering",
  near: "events.whyNear",
  parking: "events.whyParking",
  queue: "events.whyQueue",
  removed: "events.whyRemoved",
  served: "events.whyServed",
  speed: "events.whySpeed",
  stopped: "events.whyStopped",
  wait: "events.whyWait",
};
const HIDDEN = new Set(["kind", "rule"]);

/** The details of an event above the page; `before` and `after` are the addresses of its neighbours in the list. */
export function Details({ pipeline, id, newer, older, onGo, onClose, search }) {
  const { data, error } = useRead(path(pipeline, "events", id), RETRY_MS);
  const [view, setView] = useKept("eventView", "scene");
  const [isDrawn, setDrawn] = useKept("eventDrawn", true);
  useKeys({ ArrowLeft: newer && (() => onGo(newer)), ArrowRight: older && (() => onGo(older)), j: older && (() => onGo(older)), k: newer && (() => onGo(newer)) });
  if (!data) {
    return html`<${Dialog} title=${t("events.event")} onClose=${onClose} wide>${error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`}</${Dialog}>`;
  }
  const clip = data.clips[0];
  const shown = view === "clip" && clip ? "clip" : "scene";
  return html`<${Dialog} title=${textOf(data.record)} onClose=${onClose} wide>
    <div class="event-details" data-event=${id}>
      <div class="event-main">
        ${shown === "clip" ? html`<${Clip} key=${clip.recording.id} pipeline=${pipeline} clip=${clip} />` : html`<${Scene} pipeline=${pipeline} details=${data} isDrawn=${isDrawn} />`}
        ${shown === "scene" && Math.abs(data.image_seconds ?? 0) > 0.001 && html`<p class="faint small">${t(data.image_seconds > 0 ? "events.imageLater" : "events.imageEarlier", { seconds: Math.abs(data.image_seconds).toFixed(2) })}</p>`}
        <div class="bar">
          <div class="segments" role="group" aria-label=${t("events.view")}>${VIEWS.map((name) => html`
            <button aria-pressed=${name === shown} disabled=${name === "clip" && !clip} onClick=${() => setView(name)}>${t(`events.view_${name}`)}</button>`)}</div>
          ${shown === "scene" && html`<label class="check small"><input type="checkbox" checked=${isDrawn} onChange=${() => setDrawn(!isDrawn)} /> ${t("events.draw")}</label>`}
          ${!clip && html`<span class="faint small">${t("events.noClip")}</span>`}
          <span class="turns">
            <button disabled=${!newer} onClick=${() => onGo(newer)} title=${t("events.newerKey")}>← ${t("events.newer")}</button>
            <button disabled=${!older} onClick=${() => onGo(older)} title=${t("events.olderKey")}>${t("events.older")} →</button>
          </span>
        </div>
      </div>
      <div class="event-side">
        <${Facts} pipeline=${pipeline} record=${data.record} search=${search} />
        <${Why} details=${data} />
        ${data.crop && html`<img class="crop" src=${address(path(pipeline, "events", id, "thumbnail.jpg"), { crop: true }).href} alt=${t("events.cropLabel")} />`}
        <p class="small">${data.image_seconds !== null && html`<a href=${address(path(pipeline, "events", id, "thumbnail.jpg")).href} download=${`${id}.jpg`}>${t("events.downloadImage")}</a> · `}
          <a href=${href(pipeline, "camera", [data.record.stream])}>${t("events.toCamera")}</a></p>
        <details><summary>${t("events.raw")}</summary><pre class="raw" tabindex="0">${JSON.stringify(data.record, null, 2)}</pre></details>
      </div>
    </div>
  </${Dialog}>`;
}

function useKeys(keys) {
  const latest = useRef();
  latest.current = keys;
  useEffect(() => {
    const press = (event) => {
      const act = latest.current[event.key];
      if (!act || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey) return;
      if (event.target.closest("input, select, textarea, video, pre, .timeline")) return;
      event.preventDefault();
      act();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);
}

// What the event says; what can be searched for is a link to the others that have it.
function Facts({ pipeline, record, search }) {
  const link = (filters, text) => html`<a href=${href(pipeline, "events", [], { ...search, ...filters })} title=${t("events.others")}>${text}</a>`;
  const data = Object.entries(record.event).filter(([name]) => !HIDDEN.has(name));
  return html`<dl class="event-facts">
    <div><dt>${t("events.time")}</dt><dd>${dateAndTime(record.time)}</dd></div>
    <div><dt>${t("events.camera")}</dt><dd>${link({ stream: record.stream }, record.stream)}</dd></div>
    ${record.label && html`<div><dt>${t("events.label")}</dt><dd>${link({ label: record.label }, record.label)}</dd></div>`}
    <div><dt>${t("events.rule")}</dt><dd>${link({ rule: record.event.rule }, record.event.rule)} <${Badge}>${record.event.kind}</${Badge}></dd></div>
    ${data.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${typeof value === "number" && !Number.isInteger(value) ? value : link({ attribute: `${name}=${value}` }, String(value))}</dd></div>`)}
    <div><dt>${t("events.frame")}</dt><dd>${record.frame}</dd></div>
  </dl>`;
}

// Why it is an event: the rule's condition, and the way of the object.
function Why({ details: { record, scene } }) {
  const { kind, rule, direction, state } = record.event;
  const values = { label: record.label ?? t("records.object"), rule, step: record.element ?? "", ...record.event };
  const conditions = {
    line: direction === "out" ? "events.whyLineOut" : "events.whyLineIn",
    zone: { enter: "events.whyEnter", leave: "events.whyLeave" }[direction],
    dwell: "events.whyDwell",
    crowd: state === "crowded" ? "events.whyCrowded" : "events.whyCleared",
    ...WHY,
  };
  const path = scene?.path ?? [];
  const [first, last] = [path[0], path.at(-1)];
  const place = ([, x, y]) => `${percent(x)}, ${percent(y)}`;
  return html`<section class="why" aria-label=${t("events.why")}><h3>${t("events.why")}</h3>
    <p>${t(conditions[kind] ?? "events.whyOther", values)}</p>
    ${path.length > 1 && html`<p class="faint small">${t("events.path", { seconds: first[0].toFixed(1), from: place(first), to: place(last) })}</p>`}
    ${scene?.outline && html`<p class="faint small">${t("events.drawn")}</p>`}
  </section>`;
}
