// The frame inspector: take the next frame of a stream, and look at what each step made of it.

import { address, change, path } from "../../api.js";
import { html, useEffect, useState } from "../../lib.js";
import { useMay } from "../../session.js";
import { t } from "../../texts/index.js";
import { Badge, ErrorBox } from "../basic.js";
import { FrameWithBoxes } from "./frame.js";

const PATIENCE_MS = 30_000;
const VIEWS = ["after", "before", "raw"];

/** The inspector of a stream; `wanted` is the step to begin with, `onStream` is called with another stream, `onBack` to leave. */
export function Inspector({ pipeline, streams, stream, wanted, onStream, onBack }) {
  const isOperator = useMay("operator");
  const [{ found, error, isBusy }, setState] = useState({});
  const [chosen, setChosen] = useState(wanted);

  async function take() {
    setState({ found, isBusy: true });
    try {
      setState({ found: await change("POST", path(pipeline, "streams", stream, "inspect"), undefined, { patienceMs: PATIENCE_MS }) });
    } catch (failure) {
      setState({ error: failure });
    }
  }
  useEffect(() => {
    if (isOperator && stream) take();
  }, [stream]);

  const step = found && (found.steps.find((one) => one.id === chosen) ?? found.steps.find((one) => one.is_model) ?? found.steps[0]);
  return html`<section class="panel">
    <div class="bar">
      <label>${t("inspect.stream")} <select value=${stream} onChange=${(event) => onStream(event.target.value)}>
        ${streams.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>
      <button class="main" disabled=${!isOperator || isBusy} onClick=${take}>${t("inspect.take")}</button>
      <span class="faint small" role="status">${isBusy ? t("inspect.taking") : found ? t("inspect.frame", { number: found.frame, width: found.size[0], height: found.size[1] }) : ""}</span>
      ${!isOperator && html`<span class="faint small">${t("inspect.needsOperator")}</span>`}
      <button class="inspect-back" onClick=${onBack}>← ${t("inspect.back")}</button>
    </div>
    <${ErrorBox} error=${error} />
    ${step && html`<div class="inspect-steps" role="group" aria-label=${t("inspect.steps")}>${found.steps.map((one) => html`
        <button key=${one.id} aria-pressed=${one.id === step.id} onClick=${() => setChosen(one.id)}>
          <b>${one.id}</b> <span class="faint">${one.state === "done" ? `${one.before.length} → ${one.after.length}` : t(`inspect.state_${one.state}`)}</span>
        </button>`)}</div>
      <${Step} key=${`${found.id} ${step.id}`} pipeline=${pipeline} found=${found} step=${step} />`}
  </section>`;
}

function Step({ pipeline, found, step }) {
  const targets = step.targets;
  const [number, setNumber] = useState(0);
  const target = targets[number];
  const hasRaw = targets.some((one) => one.boxes.length);
  const [view, setView] = useState(hasRaw ? "raw" : "after");
  const [threshold, setThreshold] = useState(target?.threshold ?? 0);
  const urlOf = (name) => name && address(path(pipeline, "inspections", found.id, name)).href;
  const boxes = view === "raw" ? rawBoxes(target, threshold) : step[view].map((one) => ({ ...one, kind: view }));
  return html`
    ${step.failure && html`<p class="alarm bad" role="alert">${step.failure}</p>`}
    ${step.is_model && targets.length === 0 && step.state === "done" && html`<p class="faint inspect-note">${t("inspect.didNotRun")}</p>`}
    ${found.image_note && html`<p class="faint small">${found.image_note}</p>`}
    <div class="inspect-columns ${target ? "two" : ""}">
      <div>
        <div class="bar" role="group" aria-label=${t("inspect.view")}>
          ${VIEWS.filter((one) => one !== "raw" || hasRaw).map((one) => html`<button aria-pressed=${view === one} onClick=${() => setView(one)}>${t(`inspect.view_${one}`)}</button>`)}
        </div>
        ${view === "raw" && html`<${Threshold} target=${target} value=${threshold} onChange=${setThreshold} />`}
        <${FrameWithBoxes} image=${urlOf(found.image)} alt=${t("inspect.frameAlt", { number: found.frame, stream: found.stream })} note=${found.image_note}
          size=${found.size} boxes=${boxes} part=${target && target.object !== null ? target.corners : null} />
        ${step.events.length > 0 && html`<h3>${t("inspect.events")}</h3><ul class="inspect-events">${step.events.map((event) => html`
          <li>${Object.entries(event).map(([name, value]) => html`<span><i class="faint">${name}</i> ${String(value)}</span> `)}</li>`)}</ul>`}
      </div>
      ${target && html`<div>
        ${targets.length > 1 && html`<div class="inspect-targets" role="group" aria-label=${t("inspect.targets")}>${targets.map((one, at) => html`
          <button key=${at} aria-pressed=${at === number} onClick=${() => { setNumber(at); setThreshold(one.threshold ?? 0); }}>
            ${one.input ? html`<img src=${urlOf(one.input)} alt=${targetName(step, one, at)} loading="lazy" />` : targetName(step, one, at)}</button>`)}</div>`}
        <${Network} target=${target} url=${urlOf(target.input)} name=${targetName(step, target, number)} />
      </div>`}
    </div>`;
}

const targetName = (step, target, at) => (target.object === null ? t("inspect.part", { number: at + 1 }) : step.before[target.object]?.label ?? String(at + 1));

// What the network got, and what it gave besides boxes.
function Network({ target, url, name }) {
  const [size, setSize] = useState(null);
  return html`<figure class="inspect-input">
      ${url ? html`<img src=${url} alt=${t("inspect.inputAlt", { name })} onLoad=${({ target: { naturalWidth, naturalHeight } }) => setSize([naturalWidth, naturalHeight])} />` : null}
      <figcaption class="faint small">${t("inspect.input")}${size && ` ${size[0]} × ${size[1]}`}</figcaption>
    </figure>
    ${target.note && html`<p class="faint small">${target.note}</p>`}
    ${target.scores.map((score) => html`<div class="inspect-score"><span>${score.label}</span><span class="faint small">${score.output}</span>
      <span class="graph-bar"><span style=${{ width: `${100 * score.value}%` }}></span></span><b>${score.value.toFixed(3)}</b></div>`)}`;
}

function Threshold({ target, value, onChange }) {
  const now = target.boxes.filter((one) => one.kept).length;
  const then = target.boxes.filter((one) => one.survives && one.confidence >= value).length;
  const text = then === now ? t("inspect.same", { count: then }) : t(then > now ? "inspect.more" : "inspect.fewer", { count: then, difference: Math.abs(then - now) });
  return html`<div class="inspect-threshold">
    <label for="inspect-threshold">${t("inspect.threshold")} <b>${value.toFixed(2)}</b></label>
    <input id="inspect-threshold" type="range" min="0" max="1" step="0.01" value=${value} onInput=${(event) => onChange(Number(event.target.value))} />
    <span class="small" role="status">${text}</span>
    <button class="plain small" onClick=${() => onChange(target.threshold ?? 0)}>${t("inspect.asIs", { threshold: (target.threshold ?? 0).toFixed(2) })}</button>
  </div>`;
}

// A box of the network is kept now, would be kept from this threshold on, is below it, or is suppressed by a more certain one.
function rawBoxes(target, threshold) {
  const kindOf = (one) => (!one.survives ? "suppressed" : one.confidence < threshold ? "lower" : one.kept ? "kept" : "would");
  return target.boxes.map((one) => ({ ...one, kind: kindOf(one) }));
}

/** Where somebody asks for an inspection. */
export const InspectButton = ({ onClick, disabled }) => html`<button onClick=${onClick} disabled=${disabled}><${Badge}>◎</${Badge}> ${t("inspect.open")}</button>`;
