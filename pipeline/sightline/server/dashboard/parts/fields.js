// Fields of a form, made from the JSON Schema of what is edited: one input for each option, with its documentation.

import { html, styles, useState } from "../lib.js";
import { t } from "../texts/index.js";
import { Prose } from "./prose.js";

await styles("parts/fields.css");

const NS_OF = [["d", 86_400e9], ["h", 3600e9], ["m", 60e9], ["s", 1e9], ["ms", 1e6], ["us", 1e3]];
const DURATION = /^\s*\d+(\.\d+)?\s*(ns|us|ms|s|m|h|d)\s*$/;
const BYTES_OF = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];

/**
 * What kind of input an option needs: `{kind, isOptional, ...limits}`. The kinds are switch, choice, number, text,
 * duration, size, list (of texts), either (a number or one of some words), and json for everything else.
 */
export function fieldOf(schema, definitions = {}) {
  const resolved = resolve(schema, definitions);
  const forms = (resolved.anyOf ?? [resolved]).map((one) => resolve(one, definitions));
  const known = forms.filter((one) => one.type !== "null");
  const isOptional = known.length < forms.length;
  const number = known.find((one) => one.type === "number" || one.type === "integer");
  const words = known.filter((one) => one !== number).flatMap((one) => one.enum ?? [one.const]);
  if (known.length > 1 && number && words.every((one) => typeof one === "string")) {
    return { kind: "either", isOptional, choices: words, ...limitsOf(number) };
  }
  if (known.length !== 1) return { kind: known.every((one) => one.type === "string") ? "text" : "json", isOptional };
  const [form] = known;
  if (form.enum || form.const !== undefined) return { kind: "choice", isOptional, choices: form.enum ?? [form.const] };
  if (form.unit) return { kind: form.unit, isOptional, example: form.examples?.[0] };
  if (form.type === "boolean") return { kind: "switch", isOptional };
  if (form.type === "number" || form.type === "integer") {
    return { kind: "number", isOptional, ...limitsOf(form) };
  }
  if (form.type === "string") return { kind: "text", isOptional };
  if (form.type === "array" && resolve(form.items ?? {}, definitions).type === "string" && !form.items.enum) return { kind: "list", isOptional };
  return { kind: "json", isOptional };
}

const limitsOf = (form) => ({
  isWhole: form.type === "integer", least: form.minimum ?? form.exclusiveMinimum, most: form.maximum ?? form.exclusiveMaximum,
});

/** What is wrong with a value, in words, as far as its schema tells; empty when nothing is. */
export function faultIn(schema, definitions, value) {
  const field = fieldOf(schema, definitions);
  if (value === undefined || value === null || field.choices?.includes(value)) return "";
  if (field.kind === "duration") return typeof value === "number" || DURATION.test(value) ? "" : t("fields.notDuration");
  if (field.kind !== "number" && field.kind !== "either") return "";
  if (!Number.isFinite(value)) return field.choices ? t("fields.notEither", { words: field.choices.join(", ") }) : t("fields.notNumber");
  if (field.isWhole && !Number.isInteger(value)) return t("fields.notWhole");
  if (value < field.least) return t("fields.least", { value: field.least });
  return value > field.most ? t("fields.most", { value: field.most }) : "";
}

function resolve(schema, definitions) {
  const name = schema.$ref?.split("/").at(-1);
  return name ? { ...definitions[name], ...schema, $ref: undefined } : schema;
}

/** A value as people write it: durations and sizes with their unit. */
export function written(value, kind) {
  if (typeof value === "number" && (kind === "duration" || kind === "size")) {
    const [unit, factor] = (kind === "duration" ? NS_OF : BYTES_OF).find(([, one]) => value && value % one === 0) ?? (kind === "duration" ? ["ns", 1] : ["B", 1]);
    return value === 0 && kind === "duration" ? "0s" : `${value / factor}${unit}`;
  }
  if (Array.isArray(value) && kind === "list") return value.join(", ");
  return kind === "json" ? JSON.stringify(value) : String(value ?? "");
}

/**
 * One option. `value` is undefined for the default; `onChange` gets the new value, null for "as the default", or an Error
 * for a text that is no value. `problem` is what the server says of it, `note` a word beside its name. `words` are the
 * texts that a list can have, such as the labels of a model, when they are known.
 */
export function Field({ name, schema, definitions, value, onChange, disabled, problem, note, words }) {
  const field = fieldOf(schema, definitions);
  const id = `field-${name}`;
  const shared = { id, disabled, "aria-describedby": `${id}-about`, "aria-invalid": problem ? "true" : undefined };
  const isSwitch = field.kind === "switch" && !field.isOptional;
  const isToggled = field.kind === "list" && Boolean(words);
  const input = html`<${isToggled ? Toggles : INPUTS[field.kind]} field=${field} words=${words} value=${value} initial=${schema.default ?? undefined} onChange=${onChange} shared=${shared} />`;
  return html`<div class="option ${problem ? "wrong" : ""}">
    <div class="option-head">
      ${isSwitch && input}${isToggled ? html`<span class="option-name" id="${id}-name">${name}</span>` : html`<label for=${id}>${name}</label>`}${note}
      ${value !== undefined && field.kind !== "switch" && !disabled && schema.default !== undefined && html`
        <button class="plain small" onClick=${() => onChange(null)}>${t("fields.reset")}</button>`}
    </div>
    ${!isSwitch && input}
    <div id="${id}-about">
      ${problem && html`<p class="bad small" role="alert">${problem}</p>`}
      <${Prose} text=${schema.description ?? ""} />
    </div>
  </div>`;
}

function Switch({ value, initial, onChange, shared, field }) {
  if (field.isOptional) return html`<${Choice} field=${{ ...field, choices: [true, false] }} ...${{ value, initial, onChange, shared }} />`;
  return html`<input type="checkbox" role="switch" ...${shared} checked=${value ?? initial ?? false} onChange=${(event) => onChange(event.target.checked)} />`;
}

function Choice({ field, value, initial, onChange, shared }) {
  const byText = new Map(field.choices.map((one) => [String(one), one]));
  return html`<select ...${shared} value=${String(value ?? initial ?? "")} onChange=${(event) => onChange(byText.get(event.target.value) ?? null)}>
    ${(field.isOptional || (value ?? initial) === undefined) && html`<option value="">${t("fields.byDefault")}</option>`}
    ${[...byText.keys()].map((one) => html`<option value=${one}>${one}</option>`)}
  </select>`;
}

function Numeric({ field, value, initial, onChange, shared }) {
  const isShare = field.least !== undefined && field.most !== undefined && field.most - field.least <= 1;
  const step = field.isWhole ? 1 : isShare ? 0.01 : "any";
  const set = (event) => onChange(event.target.value === "" ? null : Number(event.target.value));
  const limits = { min: field.least, max: field.most, step };
  return html`<span class="option-row">
    ${isShare && html`<input type="range" aria-hidden="true" tabindex="-1" ...${limits} value=${value ?? initial ?? field.least} disabled=${shared.disabled} onInput=${set} />`}
    <input type="number" ...${shared} ...${limits} step="any" value=${value ?? ""} placeholder=${initial ?? t("fields.byDefault")} onInput=${set} />
  </span>`;
}

function Text({ field, value, initial, onChange, shared }) {
  const placeholder = initial === undefined ? field.example ?? t("fields.byDefault") : written(initial, field.kind);
  const read = (text) => (field.kind === "list" ? text.split(",").map((one) => one.trim()).filter(Boolean) : text);
  const shown = value === undefined ? "" : written(value, field.kind);
  return html`<input ...${shared} defaultValue=${shown} key=${shared.disabled} placeholder=${placeholder} autocomplete="off" spellcheck=${false}
    onInput=${(event) => onChange(event.target.value.trim() === "" ? null : read(event.target.value))} />`;
}

// A number, or one of some words.
function Either({ field, value, initial, onChange, shared }) {
  const read = (text) => (Number.isFinite(Number(text)) ? Number(text) : text);
  const list = `${shared.id}-words`;
  return html`<input ...${shared} defaultValue=${value ?? ""} key=${shared.disabled} placeholder=${initial ?? t("fields.byDefault")} list=${list} autocomplete="off"
      onInput=${(event) => onChange(event.target.value.trim() === "" ? null : read(event.target.value.trim()))} />
    <datalist id=${list}>${field.choices.map((one) => html`<option value=${one} />`)}</datalist>`;
}

// Words that are known, each to be switched on; none is all.
function Toggles({ value, words, onChange, shared }) {
  const given = value ?? [];
  const toggle = (word) => {
    const next = given.includes(word) ? given.filter((one) => one !== word) : [...given, word];
    onChange(next.length ? next : null);
  };
  return html`<div class="toggles" role="group" id=${shared.id} aria-labelledby="${shared.id}-name" aria-describedby=${shared["aria-describedby"]}>
    ${[...new Set([...words, ...given])].map((word) => html`<button type="button" key=${word} disabled=${shared.disabled}
      aria-pressed=${given.includes(word) ? "true" : "false"} onClick=${() => toggle(word)}>${word}</button>`)}
  </div>`;
}

function Json({ value, initial, onChange, shared }) {
  const [text, setText] = useState(null);
  const set = (event) => {
    setText(event.target.value);
    if (event.target.value.trim() === "") return onChange(null);
    try {
      return onChange(JSON.parse(event.target.value));
    } catch {
      return onChange(new Error(t("fields.notJson")));
    }
  };
  return html`<textarea rows="2" ...${shared} value=${text ?? (value === undefined ? "" : JSON.stringify(value))} spellcheck=${false}
    placeholder=${initial === undefined ? t("fields.byDefault") : JSON.stringify(initial)} onInput=${set}></textarea>`;
}

const INPUTS = { switch: Switch, choice: Choice, number: Numeric, text: Text, duration: Text, size: Text, list: Text, either: Either, json: Json };
