// Add a camera, or replace one: its address, a test image before anything changes, and the options that matter.

import { change, path, read } from "../api.js";
import { html, useEffect, useState } from "../lib.js";
import { t } from "../texts/index.js";
import { ErrorBox } from "./basic.js";
import { Discover } from "./discover.js";
import { addressOf, MAKERS } from "./makers.js";
import { notify } from "./notices.js";

const TEST_PATIENCE_MS = 40_000;
const CHANGE_PATIENCE_MS = 60_000;
const OPTIONS = ["stall_timeout", "max_reconnect_time", "max_fps"];
const WAYS = [["address", "cameras.byAddress"], ["parts", "cameras.byParts"], ["network", "cameras.byNetwork"]];
const EMPTY = { host: "", port: "", user: "", password: "", path: "" };

/** `stream` is the one to replace, as the API lists it; without it, a new one is added. `taken` are names in use. */
export function CameraForm({ pipeline, stream, taken, onDone }) {
  const [name, setName] = useState(stream?.name ?? "");
  const [way, setWay] = useState("address");
  const [uri, setUri] = useState(stream?.source.uri ?? "rtsp://");
  const [parts, setParts] = useState(EMPTY);
  const [options, setOptions] = useState(() => shownOptions(stream?.source ?? {}));
  const [test, setTest] = useState({});
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [file, setFile] = useState(false);
  const [hasFile, setHasFile] = useState(false);
  useEffect(() => {
    read(path(pipeline, "configuration", "file")).then(() => { setHasFile(true); setFile(true); }, () => {}); // it comes from none
  }, []);

  const address = way === "parts" ? addressOf(parts) : uri.trim();
  const source = { ...stream?.source, uri: address, ...givenOptions(options, stream?.source ?? {}) };
  for (const [key, value] of Object.entries(source)) if (value === undefined) delete source[key];
  const isNamed = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name) || name === stream?.name;
  const chosen = (found, title) => {
    setUri(found);
    setWay("address");
    if (!name) setName(nameFrom(title));
  };
  const tryIt = async () => {
    setTest({ isRunning: true });
    setError(null);
    try {
      const query = { stream: stream?.name };
      const found = await change("POST", path(pipeline, "sources", "test"), source, { query, patienceMs: TEST_PATIENCE_MS });
      setTest({ found, address });
    } catch (failure) {
      setTest({});
      setError(failure);
    }
  };
  const add = async () => {
    setBusy(true);
    setError(null);
    try {
      await change("PUT", path(pipeline, "streams", name), source, { patienceMs: CHANGE_PATIENCE_MS });
      notify(t(stream ? "cameras.replaced" : "cameras.added", { name }));
      if (hasFile && file) await change("POST", path(pipeline, "configuration", "save")).catch((failure) => notify(failure.message, "bad"));
      onDone();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<h1 class="title">${stream ? t("cameras.editTitle", stream) : t("cameras.add")}</h1>
    <form class="camera-form" onSubmit=${(event) => { event.preventDefault(); tryIt(); }}>
      <fieldset class="panel" disabled=${isBusy}>
        <${Field} label=${t("cameras.name")} help=${t("cameras.nameHelp")} value=${name} onInput=${setName} disabled=${Boolean(stream)} required
          invalid=${!isNamed && name !== "" || (!stream && taken.includes(name))} />
        <div class="segments" role="group" aria-label=${t("cameras.address")}>
          ${WAYS.map(([one, text]) => html`<button type="button" aria-pressed=${way === one} onClick=${() => setWay(one)}>${t(text)}</button>`)}
        </div>
        ${way === "network" && html`<${Discover} pipeline=${pipeline} onChoose=${chosen} />`}
        ${way === "parts"
          ? html`<${Parts} parts=${parts} setParts=${setParts} />`
          : html`<${Field} label=${t("cameras.address")} help=${t("cameras.addressHelp")} value=${uri} onInput=${setUri} type="text" inputmode="url" />`}
        <${Options} options=${options} setOptions=${setOptions} />
      </fieldset>
      <div class="panel">
        <${Tested} test=${test} />
        <${ErrorBox} error=${error} />
        <div class="bar actions">
          <button class=${test.found?.image ? "" : "main"} disabled=${test.isRunning || isBusy}>${t("cameras.test")}</button>
          <button type="button" class=${test.found?.image ? "main" : ""} disabled=${!isNamed || isBusy || test.isRunning} onClick=${add}>${t(stream ? "cameras.saveThis" : "cameras.addThis")}</button>
          <button type="button" onClick=${onDone}>${t("cameras.cancel")}</button>
        </div>
        ${hasFile && html`<label class="check"><input type="checkbox" checked=${file} onChange=${(event) => setFile(event.target.checked)} /> ${t("cameras.saveToFile")}</label>`}
      </div>
    </form>`;
}

// A name that a stream may have.
const nameFrom = (title) => title.normalize("NFKD").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/^[^A-Za-z0-9]+|-+$/g, "").slice(0, 64);

function Field({ label, help, value, onInput, type = "text", invalid = false, ...rest }) {
  return html`<label class="field"><span>${label}</span>
    <input type=${type} value=${value} onInput=${(event) => onInput(event.target.value)} aria-invalid=${invalid} autocomplete="off" spellcheck="false" ...${rest} />
    ${help && html`<span class=${`small ${invalid ? "bad" : "faint"}`}>${help}</span>`}</label>`;
}

function Parts({ parts, setParts }) {
  const [maker, setMaker] = useState("");
  const set = (key) => (value) => setParts({ ...parts, [key]: value });
  const known = MAKERS.find((one) => one.name === maker);
  const choose = (event) => {
    setMaker(event.target.value);
    const chosen = MAKERS.find((one) => one.name === event.target.value);
    if (chosen) setParts({ ...parts, path: chosen.paths[0][1] });
  };
  return html`
    <div class="pair"><${Field} label=${t("cameras.host")} value=${parts.host} onInput=${set("host")} />
      <${Field} label=${t("cameras.port")} value=${parts.port} onInput=${set("port")} inputmode="numeric" placeholder="554" /></div>
    <div class="pair"><${Field} label=${t("cameras.user")} value=${parts.user} onInput=${set("user")} />
      <${Field} label=${t("cameras.password")} value=${parts.password} onInput=${set("password")} type="password" /></div>
    <label class="field"><span>${t("cameras.maker")}</span><select value=${maker} onChange=${choose}>
      <option value="">${t("cameras.makerOther")}</option>
      ${MAKERS.map((one) => html`<option value=${one.name}>${one.name}</option>`)}</select>
      ${known && html`<span class="small faint">${t("cameras.source")}: ${known.source}</span>`}</label>
    ${known && known.paths.length > 1 && html`<div class="segments" role="group" aria-label=${t("cameras.path")}>${known.paths.map(([text, to]) => html`
      <button type="button" aria-pressed=${parts.path === to} onClick=${() => set("path")(to)}>${t(`cameras.${text}`)}</button>`)}</div>`}
    <${Field} label=${t("cameras.path")} value=${parts.path} onInput=${set("path")} />`;
}

function Options({ options, setOptions }) {
  const set = (key) => (value) => setOptions({ ...options, [key]: value });
  return html`<details><summary>${t("cameras.options")}</summary><div class="pair">
    ${OPTIONS.map((key) => html`<${Field} key=${key} label=${t(`cameras.${key}`)} help=${t(`cameras.${key}Help`)} value=${options[key]} onInput=${set(key)} />`)}
    <${Choice} name="rotate" value=${options.rotate} choices=${["auto", "0", "90", "180", "270"].map((one) => [one, one])} onChange=${set("rotate")} />
    <${Choice} name="damaged" value=${options.damaged} choices=${["keep", "skip"].map((one) => [one, t(`cameras.damaged_${one}`)])} onChange=${set("damaged")} />
  </div></details>`;
}

const Choice = ({ name, value, choices, onChange }) => html`<label class="field"><span>${t(`cameras.${name}`)}</span>
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>${choices.map(([one, text]) => html`<option value=${one}>${text}</option>`)}</select>
  <span class="small faint">${t(`cameras.${name}Help`)}</span></label>`;

const DEFAULTS = { stall_timeout: "", max_reconnect_time: "", max_fps: "", rotate: "auto", damaged: "keep" };

function shownOptions(source) {
  return Object.fromEntries(Object.entries(DEFAULTS).map(([key, preset]) => [key, String(source[key] ?? preset)]));
}

// The options that were given, and `undefined` for those that were there and are to be the default again.
function givenOptions(options, before) {
  const given = {};
  for (const [key, preset] of Object.entries(DEFAULTS)) {
    const text = options[key].trim();
    if (text === preset) given[key] = undefined;
    else if (text === String(before[key] ?? preset)) given[key] = before[key];
    else given[key] = ["max_fps", "rotate"].includes(key) && Number.isFinite(Number(text)) ? Number(text) : text;
  }
  return given;
}

function Tested({ test }) {
  const { found, isRunning } = test;
  if (!found) {
    return html`<div class="test-image test-empty" role="status">${t(isRunning ? "cameras.testing" : "cameras.testNote")}</div>`;
  }
  if (!found.image) {
    return html`<div class="alarm bad" role="alert"><p><b>${t(`cameras.reason_${found.reason}`)}</b></p><p>${found.message}</p></div>`;
  }
  const facts = [
    ["codec", found.codec ?? t("cameras.unknown")],
    ["size", found.size.join("×")],
    ["fps", found.fps ?? t("cameras.unknown")],
    ["audio", found.audio ?? t("cameras.noSound")],
    ["first", t("cameras.seconds", { seconds: found.seconds.toFixed(1) })],
  ];
  const shown = test.address.replace(/\/\/[^@/]*@/, "//");
  return html`<div role="status"><img class="test-image" src=${`data:image/jpeg;base64,${found.image}`} alt=${t("cameras.tested", { address: shown })} />
    <dl class="facts">${facts.map(([key, value]) => html`<div><dt>${t(`cameras.${key}`)}</dt><dd>${value}</dd></div>`)}</dl></div>`;
}
