// The configuration: edit it with suggestions and checks, see what changes, apply it, go back.

import { address, ask, change, path, read, tagOf, useRead } from "../api.js";
import { html, styles, useEffect, useState } from "../lib.js";
import { ErrorBox, Loading } from "../parts/basic.js";
import { Diff } from "../parts/diff.js";
import { Editor } from "../parts/editor.js";
import { attempt, notify } from "../parts/notices.js";
import { Versions } from "../parts/versions.js";
import { go, href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/configuration.css");

const CHECK_AFTER_MS = 400;
const PROBATION_SECONDS = 5;
const CHANGE_PATIENCE_MS = 400_000;
const VERSIONS_EVERY_MS = 3000;
const YAML = "application/yaml";

// What is typed and not applied yet, by pipeline: it is still there when one comes back from another screen.
const drafts = new Map();

export default function Configuration({ pipeline, rest, query }) {
  const versions = useRead(path(pipeline, "configuration", "versions"), VERSIONS_EVERY_MS);
  const file = useFile(pipeline, versions.data?.at(-1)?.etag);
  const [base, setBase] = useState(drafts.get(pipeline)?.base ?? null);
  const [text, setText] = useState(drafts.get(pipeline)?.text ?? "");
  const [error, setError] = useState(null);
  const present = versions.data?.at(-1);
  const isDirty = base !== null && text !== base.text;

  const load = async () => {
    try {
      const answer = await ask(path(pipeline, "configuration"));
      const fresh = { text: await answer.text(), tag: tagOf(answer) };
      setBase(fresh);
      setText(fresh.text);
      setError(null);
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => {
    if (base === null || (!isDirty && present && present.etag !== base.tag)) load();
  }, [present?.etag, base === null]);
  useEffect(() => {
    if (base && isDirty) drafts.set(pipeline, { base, text });
    else drafts.delete(pipeline);
  }, [pipeline, base, text]);

  if (!base) return error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`;
  const part = rest[0] ?? "";
  const shared = { pipeline, base, text, present, versions: versions.data ?? [], file };
  return html`
    <div class="title-line"><h1 class="title">${t("configuration.title")}</h1>
      <span class="faint small">${isDirty ? t("configuration.edited") : t("configuration.clean")}
        ${present && ` · ${t("configuration.versionName", present)}`}</span>
      <${FileState} pipeline=${pipeline} file=${file} />
    </div>
    <nav class="tabs" aria-label=${t("configuration.title")}>
      <${Tab} pipeline=${pipeline} part="" present=${part}>${t("configuration.edit")}</${Tab}>
      <${Tab} pipeline=${pipeline} part="difference" present=${part}>${t("configuration.tabDifference")}</${Tab}>
      <${Tab} pipeline=${pipeline} part="versions" present=${part}>${t("configuration.tabVersions")}</${Tab}>
    </nav>
    ${part === "versions"
      ? html`<${Versions} ...${shared} onChanged=${() => { versions.refresh(); load(); }} />`
      : part === "difference"
        ? html`<${Difference} ...${shared} against=${query.with ?? "running"} />`
        : html`<${Edit} ...${shared} isDirty=${isDirty} setText=${setText} onLoad=${load} onApplied=${() => { versions.refresh(); load(); }} />`}`;
}

const Tab = ({ pipeline, part, present, children }) => html`
  <a href=${href(pipeline, "configuration", part ? [part] : [])} aria-current=${part === present ? "page" : undefined}>${children}</a>`;

// What the pipeline's file describes; null when it comes from none. Asked for anew with each version.
function useFile(pipeline, version) {
  const [state, setState] = useState({ data: undefined });
  const refresh = () => read(path(pipeline, "configuration", "file")).then(
    (data) => setState({ data }),
    (error) => setState({ data: error.status === 404 ? null : undefined }),
  );
  useEffect(() => {
    refresh();
  }, [pipeline, version]);
  return { ...state, refresh };
}

function FileState({ pipeline, file }) {
  const isAdmin = useMay("admin");
  if (!file.data) return null;
  const { path: name, saved, changed } = file.data;
  const save = async () => {
    const done = await attempt(() => change("POST", path(pipeline, "configuration", "save")));
    if (done) notify(t(done.written ? "configuration.saved" : "configuration.savedSame", { path: name }));
    file.refresh();
  };
  return html`<div class="bar">
    <span class="faint small" title=${name}>${saved ? t("configuration.fileSaved") : t("configuration.fileUnsaved", { path: name.split("/").at(-1) })}</span>
    ${isAdmin && html`<button disabled=${saved} onClick=${save}>${t("configuration.save")}</button>`}
    ${changed && html`<p class="alarm warn">${t("configuration.fileChanged", { path: name })}</p>`}
  </div>`;
}

function Edit({ pipeline, base, text, present, isDirty, setText, onLoad, onApplied }) {
  const mayCheck = useMay("operator");
  const isAdmin = useMay("admin");
  const schema = useRead(path(pipeline, "configuration", "schema"));
  const [problems, setProblems] = useState([]);
  const [isChecking, setChecking] = useState(false);
  const [applying, setApplying] = useState(0);
  const [refusal, setRefusal] = useState(null);
  const [jump, setJump] = useState(null);
  const isStale = isDirty && !applying && present && present.etag !== base.tag;

  useEffect(() => {
    if (!isDirty || !mayCheck) {
      setProblems([]);
      setChecking(false);
      return undefined;
    }
    const asking = new AbortController();
    setChecking(true);
    const timer = setTimeout(async () => {
      try {
        const to = path(pipeline, "configuration", "check");
        const verdict = await change("POST", to, text, { type: YAML, signal: asking.signal, patienceMs: 30_000 });
        setProblems(verdict.problems);
        setChecking(false);
      } catch (error) {
        if (asking.signal.aborted) return;
        setProblems(error.problem?.problems ?? [{ line: 0, path: "", message: error.message }]);
        setChecking(false);
      }
    }, CHECK_AFTER_MS);
    return () => {
      clearTimeout(timer);
      asking.abort();
    };
  }, [text, isDirty]);

  const apply = async () => {
    setRefusal(null);
    setApplying(Date.now());
    try {
      const options = { type: YAML, ifMatch: base.tag, query: { prove: PROBATION_SECONDS }, patienceMs: CHANGE_PATIENCE_MS };
      const made = await change("PUT", path(pipeline, "configuration"), text, options);
      notify(t("configuration.applied", { version: made.version, seconds: PROBATION_SECONDS }));
      onApplied();
    } catch (error) {
      if (error.status === 422) setProblems(error.problem?.problems ?? []);
      setRefusal(error.status === 409 ? { message: t("configuration.reverted", { reason: error.message }) } : error);
    }
    setApplying(0);
  };
  return html`
    ${isStale && html`<div class="alarm warn" role="alert">
      <p>${t("configuration.changedMeanwhile", { version: present.version, by: present.by && `, ${t("configuration.by")} ${present.by}` })}</p>
      <button onClick=${onLoad}>${t("configuration.readAnew")}</button></div>`}
    <${Editor} text=${text} onChange=${setText} problems=${problems} schema=${schema.data} readOnly=${!mayCheck || applying > 0}
      label=${t("configuration.editor")} describedBy="editor-help mistakes" jump=${jump} />
    <div class="state-line">
      <span role="status" class=${problems.length ? "bad" : isDirty && !isChecking ? "good" : "faint"}>${stateText(isDirty, isChecking, problems)}</span>
      <div class="bar actions">
        ${isAdmin && html`
          <button class="main" disabled=${!isDirty || isChecking || problems.length > 0 || applying > 0} onClick=${apply}>${t("configuration.apply")}</button>`}
        ${mayCheck && html`<button disabled=${!isDirty || applying > 0} onClick=${() => { setText(base.text); setRefusal(null); }}>${t("configuration.discard")}</button>`}
      </div>
    </div>
    ${applying > 0 && html`<${Probation} since=${applying} />`}
    <${ErrorBox} error=${refusal} />
    <ul class="mistakes" id="mistakes">${problems.map((one) => html`<li>
      ${one.line > 0 && html`<button onClick=${() => setJump({ line: one.line, column: one.column })}>${t("configuration.goTo", one)}</button>`}
      <span>${one.path && html`<b>${one.path}</b>: `}${one.message}</span></li>`)}</ul>
    <p class="faint small" id="editor-help">${mayCheck ? `${t("configuration.help")} ${t("configuration.secrets")}` : t("configuration.readOnly")}</p>`;
}

function stateText(isDirty, isChecking, problems) {
  if (!isDirty) return "";
  if (problems.length) return problems.length === 1 ? t("configuration.problem") : t("configuration.problems", { count: problems.length });
  return isChecking ? t("configuration.checking") : t("configuration.valid");
}

/** The time of a change's probation. */
function Probation({ since }) {
  const [now, setNow] = useState(since);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const text = t("configuration.applying", { seconds: PROBATION_SECONDS });
  return html`<div role="status"><p class="small">${text}</p>
    <progress aria-label=${text} max=${PROBATION_SECONDS * 1000} value=${Math.min(now - since, PROBATION_SECONDS * 1000)}></progress></div>`;
}

function Difference({ pipeline, base, text, versions, file, against }) {
  const [other, setOther] = useState(null);
  useEffect(() => {
    let isGone = false;
    const show = (value) => isGone || setOther(value);
    setOther(null);
    if (against === "running") show({ text: base.text });
    else if (against === "file") show({ text: file.data?.text ?? base.text });
    else {
      const to = address(path(pipeline, "configuration", "versions", against));
      ask(to).then((answer) => answer.text()).then((found) => show({ text: found }), (error) => show({ error }));
    }
    return () => (isGone = true);
  }, [against, base, file.data]);
  const choices = [["running", t("configuration.running")]];
  if (file.data) choices.push(["file", t("configuration.file")]);
  for (const one of versions.slice(0, -1).reverse()) choices.push([one.etag, t("configuration.versionName", one)]);
  const label = `${t("configuration.tabDifference")}: ${choices.find(([value]) => value === against)?.[1] ?? against}`;
  return html`<div class="bar"><label>${t("configuration.compare")} <select value=${against}
      onChange=${(event) => go(href(pipeline, "configuration", ["difference"], { with: event.target.value }))}>
      ${choices.map(([value, name]) => html`<option value=${value} selected=${value === against}>${name}</option>`)}</select></label></div>
    ${other?.error ? html`<${ErrorBox} error=${other.error} />` : other ? html`<${Diff} before=${other.text} after=${text} label=${label} />` : html`<${Loading} />`}`;
}
