// What events are filtered by: chosen from what there is, or typed. The filters are in the address, so a search is a link.

import { path, useRead } from "../../api.js";
import { html, useEffect, useRef, useState } from "../../lib.js";
import { t } from "../../texts/index.js";

const CHOICES = ["stream", "rule", "label", "kind"];
const MESSAGES = /^(started|reloaded|reverted|stream_|element_|model$|recording|sink_|destination_|overloaded|keeps_up|warning|error|stopped)/;
const TYPED_MS = 350;
const REFRESH_MS = 30_000;

/** What there is to filter by, as the history has it: `{stream, rule, label, kind}`, lists. */
export function useValues(pipeline) {
  const { data } = useRead(path(pipeline, "history", "records", "values"), REFRESH_MS);
  return data && { ...data, kind: data.kind.filter((one) => !MESSAGES.test(one)) };
}

/** The filters; `onChange(filters)` is called with those that change. */
export function Filters({ values, filters, onChange }) {
  const isAny = Object.keys(filters).length > 0;
  return html`<form class="bar filters" role="search" aria-label=${t("events.filters")} onSubmit=${(event) => event.preventDefault()}>
    <${Typed} name="text" value=${filters.text} onChange=${onChange} />
    ${CHOICES.map((name) => html`<label key=${name}><span class="hidden">${t(`events.filter_${name}`)}</span>
      <select name=${name} value=${filters[name] ?? ""} onChange=${(event) => onChange({ [name]: event.target.value })}>
        <option value="">${t(`events.all_${name}`)}</option>
        ${choices(values?.[name], filters[name]).map((one) => html`<option value=${one}>${one}</option>`)}
      </select></label>`)}
    <${Typed} name="attribute" value=${filters.attribute} onChange=${onChange} isRight=${(text) => !text || /^[^=]+=./.test(text)} />
    ${isAny && html`<button type="button" class="plain" onClick=${() => onChange({ text: "", attribute: "", stream: "", rule: "", label: "", kind: "" })}>${t("events.clear")}</button>`}
  </form>`;
}

// The values, and the chosen one where the history does not have it (any more).
const choices = (known = [], chosen) => (chosen && !known.includes(chosen) ? [...known, chosen] : known);

function Typed({ name, value = "", onChange, isRight = () => true }) {
  const [text, setText] = useState(value);
  const timer = useRef();
  useEffect(() => setText(value), [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const type = (event) => {
    const next = event.target.value;
    setText(next);
    clearTimeout(timer.current);
    if (isRight(next)) timer.current = setTimeout(() => onChange({ [name]: next.trim() }), TYPED_MS);
  };
  return html`<label class="typed ${name}"><span class="hidden">${t(`events.filter_${name}`)}</span>
    <input name=${name} type="search" maxlength="100" value=${text} onInput=${type} placeholder=${t(`events.hint_${name}`)} aria-invalid=${!isRight(text)} /></label>`;
}
