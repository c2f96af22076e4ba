// Find cameras on the network (ONVIF), and ask one for its streams.

import { change, path } from "../api.js";
import { html, useState } from "../lib.js";
import { t } from "../texts/index.js";
import { Empty, ErrorBox } from "./basic.js";
import { loginOf } from "./makers.js";

const SECONDS = 3;
const PATIENCE_MS = 40_000;

/** `onChoose` is called with the address of a stream, with its login, and the camera's name. */
export function Discover({ pipeline, onChoose }) {
  const [found, setFound] = useState(null);
  const [camera, setCamera] = useState(null);
  const [login, setLogin] = useState({ user: "", password: "" });
  const [streams, setStreams] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const ask = (to, body, then) => async () => {
    setBusy(true);
    setError(null);
    try {
      then(await change("POST", path(pipeline, "sources", to), body, { patienceMs: PATIENCE_MS }));
    } catch (failure) {
      setError(failure);
    }
    setBusy(false);
  };
  const find = ask("discover", { seconds: SECONDS }, (answer) => {
    setFound(answer);
    setCamera(null);
    setStreams(null);
  });
  const askStreams = ask("onvif", { service: camera?.service, ...login }, setStreams);
  const input = (name, type) => html`<label class="field"><span>${t(`cameras.${name}`)}</span><input type=${type} autocomplete="off"
    value=${login[name]} onInput=${(event) => setLogin({ ...login, [name]: event.target.value })} /></label>`;
  return html`<div class="discover">
    <div class="bar"><button type="button" disabled=${isBusy} onClick=${find}>${t("cameras.find")}</button>
      <span class="small faint" role="status">${isBusy ? t("cameras.finding") : found ? countText(found) : t("cameras.findHelp")}</span></div>
    <${ErrorBox} error=${error} />
    ${found && found.cameras.length === 0 && html`<${Empty}>${t("cameras.foundNone")}</${Empty}>`}
    ${found && html`<ul class="found">${found.cameras.map((one) => html`<li><button type="button" aria-pressed=${one === camera}
      onClick=${() => { setCamera(one); setStreams(null); }}><b>${one.name}</b> <span class="faint small">${[one.hardware, one.address].filter(Boolean).join(" · ")}</span></button></li>`)}</ul>`}
    ${camera && html`<div class="pair">${input("user", "text")}${input("password", "password")}</div>
      <div class="bar"><button type="button" disabled=${isBusy} onClick=${askStreams}>${t("cameras.askStreams")}</button></div>`}
    ${streams && html`<ul class="found">${streams.map((one) => html`<li><button type="button"
      onClick=${() => onChoose(withLogin(one.uri, login), camera.name)}><b>${one.name}</b> <span class="faint small">${factsText(one)}</span></button></li>`)}</ul>`}
  </div>`;
}

const countText = ({ cameras, interfaces }) => t("cameras.foundCount", { count: cameras.length, interfaces: interfaces.join(", ") });

const withLogin = (uri, login) => uri.replace(/^(rtsps?:[/][/])(?:[^@/]*@)?/i, (_, scheme) => `${scheme}${loginOf(login)}`);

const factsText = ({ codec, size, fps }) => [codec, size?.join("×"), fps && `${fps} ${t("cameras.fps")}`].filter(Boolean).join(" · ");
