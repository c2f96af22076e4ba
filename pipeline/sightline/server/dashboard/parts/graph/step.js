// What one step is, and its options: those that change at once, and those for which the step is built anew.

import { change, path, tagOf, ask } from "../../api.js";
import { html, useEffect, useState } from "../../lib.js";
import { href } from "../../router.js";
import { useMay } from "../../session.js";
import { t } from "../../texts/index.js";
import { Badge, ErrorBox, Loading, Panel } from "../basic.js";
import { Field } from "../fields.js";
import { notify } from "../notices.js";
import { Prose } from "../prose.js";

const PROVE_SECONDS = 5;
const FIXED = new Set(["id"]); // another name would be another step
const LAST = new Set(["streams", "on_error"]);

/** The panel of a step; `step` is that of the graph, `children` stands above the options. */
export function StepPanel({ pipeline, step, onClose, children }) {
  const [known, setKnown] = useState({});
  const load = async () => {
    try {
      const response = await ask(path(pipeline, "elements", step.id));
      setKnown({ info: await response.json(), tag: tagOf(response) });
    } catch (error) {
      setKnown({ error });
    }
  };
  useEffect(() => void load(), [pipeline, step.id]);
  const { info, tag, error } = known;
  return html`<aside class="graph-panel"><${Panel} title=${step.id}
      actions=${html`<button class="plain" onClick=${onClose} aria-label=${t("shell.close")}>✕</button>`}>
    <p class="graph-tags"><${Badge}>${step.element}</${Badge}>
      ${step.engine && html`<${Badge} kind="good">${step.engine}</${Badge}>`}
      ${step.device && html`<${Badge} kind="faint">${step.device}</${Badge}>`}
      ${step.stage && html`<${Badge} kind="faint">${t("graph.thread", { name: step.stage })}</${Badge}>`}</p>
    <${Prose} text=${step.purpose} />
    ${step.device_reason && html`<p class="faint small">${t("graph.deviceReason", { device: step.device, reason: step.device_reason })}</p>`}
    ${children}
    ${error ? html`<${ErrorBox} error=${error} />` : !info ? html`<${Loading} />` : html`
      <details class="graph-docs"><summary>${t("graph.documentation")}</summary><${Prose} text=${info.json_schema.description ?? ""} /></details>
      <${Options} key=${tag} pipeline=${pipeline} info=${info} tag=${tag} reload=${load} />`}
  </${Panel}></aside>`;
}

function Options({ pipeline, info, tag, reload }) {
  const isAdmin = useMay("admin");
  const [draft, setDraft] = useState({});
  const [{ error, isBusy }, setState] = useState({});
  const schema = info.json_schema;
  const names = Object.keys(schema.properties).filter((name) => !FIXED.has(name));
  const others = Object.keys(info.options).filter((name) => !(name in schema.properties));
  const isLive = (name) => info.changes_live.includes(name) || Boolean(schema.properties[name] === undefined && schema.additionalProperties?.["x-changes-live"]);
  const valueOf = (name) => (name in draft ? draft[name] ?? undefined : info.options[name]);
  const set = (name) => (value) => {
    const next = { ...draft, [name]: value };
    if (JSON.stringify(value ?? null) === JSON.stringify(info.options[name] ?? null) && !(value instanceof Error)) delete next[name];
    setDraft(next);
  };
  const changed = Object.keys(draft);
  const wrong = changed.filter((name) => draft[name] instanceof Error);
  const rebuilds = changed.some((name) => !isLive(name));

  async function apply(event) {
    event.preventDefault();
    setState({ isBusy: true });
    try {
      await change("PATCH", path(pipeline, "elements", info.id), draft, { ifMatch: tag, query: { prove: PROVE_SECONDS }, patienceMs: 90_000 });
      notify(t(rebuilds ? "graph.appliedAnew" : "graph.appliedLive", { id: info.id }));
      await reload();
    } catch (failure) {
      setState({ error: failure });
    }
  }

  const field = (name) => {
    const value = valueOf(name);
    return html`<${Field} key=${name} name=${name} schema=${schema.properties[name] ?? { default: undefined }} definitions=${schema.$defs}
      value=${value instanceof Error ? undefined : value} onChange=${set(name)} disabled=${!isAdmin || isBusy}
      problem=${value instanceof Error ? value.message : problemOf(error, name)}
      note=${name in draft && html`<${Badge} kind="warn">${t("graph.changed")}</${Badge}>`} />`;
  };
  const sorted = [...names.filter((name) => !LAST.has(name)), ...names.filter((name) => LAST.has(name))];
  const isShown = (name) => name in info.options || name in draft || schema.required?.includes(name);
  const live = sorted.filter(isLive);
  const anew = sorted.filter((name) => !isLive(name));
  return html`<form class="graph-options" novalidate onSubmit=${apply}>
    ${!isAdmin && html`<p class="faint small">${t("graph.needsAdmin")}</p>`}
    ${others.length > 0 && html`<p class="faint small">${t("graph.others", { names: others.join(", ") })}${" "}<a href=${href(pipeline, "zones")}>${t("graph.editOthers")}</a></p>`}
    ${live.length > 0 && html`<fieldset><legend>${t("graph.live")}</legend>${live.map(field)}</fieldset>`}
    <fieldset><legend>${t("graph.anew")}</legend>
      ${anew.filter(isShown).map(field)}
      <details><summary>${t("graph.more", { count: anew.filter((name) => !isShown(name)).length })}</summary>${anew.filter((name) => !isShown(name)).map(field)}</details>
    </fieldset>
    <${Refusal} error=${error} reload=${reload} />
    ${isAdmin && html`<div class="graph-apply">
      <span class="small faint" role="status">${isBusy ? t("graph.proving", { seconds: PROVE_SECONDS }) : rebuilds ? t("graph.willRebuild") : ""}</span>
      <button type="button" disabled=${!changed.length || isBusy} onClick=${() => { setDraft({}); setState({}); }}>${t("graph.discard")}</button>
      <button class="main" disabled=${!changed.length || wrong.length > 0 || isBusy}>${t("graph.apply")}</button>
    </div>`}
  </form>`;
}

function Refusal({ error, reload }) {
  if (!error) return null;
  const kind = { 409: "graph.reverted", 412: "graph.stale", 422: "graph.invalid", 403: "graph.needsAdmin" }[error.status];
  return html`<div class="graph-refusal">${kind && html`<p><b>${t(kind)}</b></p>`}<${ErrorBox} error=${error} />
    ${error.status === 412 && html`<button type="button" onClick=${reload}>${t("graph.reload")}</button>`}</div>`;
}

// What the server says of an option: its problems name paths such as `pipeline.0.draw.thickness`.
function problemOf(error, name) {
  const problem = (error?.problem?.problems ?? []).find(({ path: where }) => String(where ?? "").split(".").includes(name));
  return problem?.message;
}
