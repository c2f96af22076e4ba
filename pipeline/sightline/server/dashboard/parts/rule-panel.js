// The rules of a stream beside its image: a list with what they count, and the form of the one that is chosen.

import { freeName, formSchema, pointsOf, withPoints } from "./shapes.js";
import { Badge, Panel } from "./basic.js";
import { Field, faultIn } from "./fields.js";
import { within } from "./geometry.js";
import { html, useState } from "../lib.js";
import { Model } from "./new-step.js";
import { t } from "../texts/index.js";

/** What a rule counts, in its own words. */
export const countsText = (counts) => Object.entries(counts ?? {}).map(([name, value]) => `${value} ${name}`).join(" · ");

/**
 * All rules by step. `steps` are `{key, kind, streams, isNew}`, `shapes` as in ShapeLayer with `element`, `isChanged` and
 * `counts`.
 */
export function RuleList({ steps, shapes, chosen, onChoose }) {
  return html`<div class="rule-lists">${steps.filter((step) => shapes.some((one) => one.element === step.key)).map((step) => html`
    <div class="rule-step" key=${step.key}>
      <h3>${step.isNew ? step.kind : step.key}${" "}${step.isNew && html`<${Badge} kind="warn">${t("zones.newStepMark")}</${Badge}>`}${" "}
        ${step.streams && html`<span class="faint small">${t("zones.stepStreams", { streams: step.streams.join(", ") })}</span>`}</h3>
      <ul class="rule-list">${shapes.filter((one) => one.element === step.key).map((one) => html`
        <li key=${one.id}><button class="rule plain" aria-pressed=${one.id === chosen ? "true" : "false"} onClick=${() => onChoose(one.id, null)}>
          <span class="swatch" style=${{ background: one.color }}></span>
          <span class="rule-name">${one.name}</span>
          ${one.isChanged && html`<${Badge} kind="warn">${t("zones.changedMark")}</${Badge}>`}
          <span class="rule-counts faint small">${one.counts}</span>
        </button></li>`)}</ul>
    </div>`)}</div>`;
}

/**
 * The form of a rule: its name, step, options as its schema has them, and its points as numbers. `onShape(shape, goesOn)`
 * gets what is typed, `onDone` when the field is left; `revision` is another one when values were changed elsewhere.
 */
export function RuleForm({ shape, steps, step, taken, size, revision, isDisabled, onShape, onDone, onModel, children }) {
  const { drawing } = step;
  const same = steps.filter((one) => one.kind === step.kind);
  const move = (element) => onShape({ ...shape, element, name: freeName(shape.name, taken(element)) });
  return html`<${Panel} title=${shape.name || t("zones.name")} class="panel rule-form">
    <div class="bar">${children}</div>
    ${shape.faults.map((one) => html`<p class=${`small ${one.kind}`} role="alert">${t(one.text, one.values)}</p>`)}
    <${Name} key=${shape.id} shape=${shape} isDisabled=${isDisabled} onName=${(name) => onShape({ ...shape, name })} />
    ${same.length > 1 && html`<div class="option"><label class="option-name" for="rule-step">${t("zones.step")}</label>
      <select id="rule-step" value=${shape.element} disabled=${isDisabled} onChange=${(event) => move(event.target.value)}>
        ${same.map((one) => html`<option value=${one.key}>${one.isNew ? t("zones.newStep") : one.key}</option>`)}
      </select></div>`}
    ${step.model !== undefined && html`<${Model} value=${step.model} onModel=${onModel} onBlur=${onDone} />`}
    <${RuleOptions} key=${`${shape.id} ${revision}`} shape=${shape} step=${step} isDisabled=${isDisabled} onShape=${onShape} onDone=${onDone} />
    <${Points} shape=${shape} drawing=${drawing} size=${size} isDisabled=${isDisabled} onShape=${onShape} />
  </${Panel}>`;
}

/** What is wrong with the options of a rule, in the form of the faults of geometry. */
export function optionFaults(options, drawing) {
  const schema = formSchema(drawing);
  return Object.entries(schema.properties).flatMap(([name, one]) => {
    const fault = faultIn(one, schema.$defs, options[name]);
    return fault ? [{ kind: "bad", text: "zones.faultOption", values: { name, fault } }] : [];
  });
}

function RuleOptions({ shape, step, isDisabled, onShape, onDone }) {
  const schema = formSchema(step.drawing);
  const set = (name) => (value) => {
    if (value instanceof Error) return;
    const { [name]: _, ...rest } = shape.options;
    onShape({ ...shape, options: value === null ? rest : { ...rest, [name]: value } }, true);
  };
  return html`<div onFocusOut=${onDone}>${Object.entries(schema.properties).map(([name, one]) => html`
    <${Field} key=${name} name=${name} schema=${one} definitions=${schema.$defs} value=${shape.options[name]} onChange=${set(name)} disabled=${isDisabled}
      words=${name === "classes" ? step.labels : null} problem=${faultIn(one, schema.$defs, shape.options[name])} />`)}
  </div>`;
}

function Name({ shape, isDisabled, onName }) {
  const [typed, setTyped] = useState(null);
  const take = (event) => {
    setTyped(null);
    if (event.target.value.trim() !== shape.name) onName(event.target.value.trim());
  };
  return html`<div class="option"><label class="option-name" for="rule-name">${t("zones.name")}</label>
    <input id="rule-name" value=${typed ?? shape.name} maxlength="64" autocomplete="off" disabled=${isDisabled}
      onInput=${(event) => setTyped(event.target.value)} onChange=${take} /></div>`;
}

// Places as numbers, for whoever wants them exact or does not see the image.
function Points({ shape, drawing, size, isDisabled, onShape }) {
  const points = pointsOf(shape.options, drawing, size);
  const set = (number, axis) => (event) => {
    const value = Number(event.target.value) / 100;
    if (!Number.isFinite(value)) return;
    const next = points.with(number, within(points[number].with(axis, value)));
    onShape({ ...shape, options: withPoints(shape.options, drawing, next, size) });
  };
  const field = (number, axis, name) => html`<input type="number" min="0" max="100" step="0.1" disabled=${isDisabled}
    aria-label=${`${t("zones.pointAt", { number: number + 1 })}, ${name}`} value=${Math.round(points[number][axis] * 1e4) / 100} onChange=${set(number, axis)} />`;
  return html`<details class="points"><summary>${t("zones.points")}</summary>
    <ol>${points.map((_, number) => html`<li>${field(number, 0, t("zones.x"))}${field(number, 1, t("zones.y"))}</li>`)}</ol>
  </details>`;
}
