// A choice of several among many, in a box that opens: streams, labels, zones.

import { html, useEffect, useRef } from "../../lib.js";
import { t } from "../../texts/index.js";

/** `options` are names, `chosen` those that are wanted: none means all. */
export function Choice({ label, options, chosen, onChange }) {
  const box = useRef();
  useEffect(() => {
    const close = (event) => {
      if (box.current.open && !box.current.contains(event.target)) box.current.open = false;
    };
    document.addEventListener("pointerdown", close);
    return () => document.removeEventListener("pointerdown", close);
  }, []);
  const known = [...new Set([...options, ...chosen])];
  const toggle = (name) => onChange(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  const escape = (event) => {
    if (event.key !== "Escape" || !box.current.open) return;
    box.current.open = false;
    box.current.querySelector("summary").focus();
  };
  const summary = chosen.length === 0 ? t("analytics.all") : chosen.length === 1 ? chosen[0] : t("analytics.some", { count: chosen.length });
  return html`<details class="choice" ref=${box} onKeyDown=${escape}>
    <summary><span class="faint">${label}</span> <span class="chosen">${summary}</span></summary>
    <fieldset><legend class="hidden">${label}</legend>
      <label><input type="checkbox" checked=${chosen.length === 0} onChange=${() => onChange([])} /> ${t("analytics.all")}</label>
      ${known.map((name) => html`<label key=${name}>
        <input type="checkbox" checked=${chosen.includes(name)} onChange=${() => toggle(name)} /> <span>${name}</span></label>`)}
      ${known.length === 0 && html`<p class="faint small">${t("analytics.noChoice")}</p>`}
    </fieldset>
  </details>`;
}
