// The frame around the screens: which pipeline, which screen, who looks, and what is wrong with all of it.

import { useRead, useStatus } from "./api.js";
import { duration } from "./format.js";
import { html, render, useEffect, useErrorBoundary, useKept, useState } from "./lib.js";
import { Badge, ErrorBox, Loading } from "./parts/basic.js";
import { Notices } from "./parts/notices.js";
import { Shortcuts } from "./parts/shortcuts.js";
import { go, href, useRoute } from "./router.js";
import { SCREENS } from "./screens.js";
import { Session } from "./session.js";
import { t } from "./texts/index.js";

const PIPELINES_EVERY_MS = 5000;
const THEMES = ["", "dark", "light"];
const THEME_TEXTS = { "": "shell.theme", dark: "shell.themeDark", light: "shell.themeLight" };
const OVERVIEW = { name: "", load: () => import("./screens/pipelines.js") };

function App() {
  const session = useRead("session");
  const pipelines = useRead("pipelines", PIPELINES_EVERY_MS);
  const route = useRoute();
  const known = pipelines.data;
  const screen = SCREENS.find((one) => one.name === route.screen);

  useEffect(() => {
    if (!known) return;
    const isSupervised = known.some((one) => one.state);
    if (!route.pipeline && known.length === 1 && !isSupervised) go(href(known[0].name, SCREENS[0].name), { replace: true });
    if (route.pipeline && !screen) go(href(route.pipeline, SCREENS[0].name), { replace: true });
  }, [known, route.pipeline, screen]);

  if (!session.data || !known) {
    return html`<main id="content"><${Alarm} error=${session.error ?? pipelines.error} /><${Loading} /></main>`;
  }
  const isKnown = known.some((one) => one.name === route.pipeline);
  return html`<${Session.Provider} value=${session.data}>
    <a class="skip" href="#content" onClick=${skip}>${t("shell.skip")}</a>
    <${Header} route=${route} pipelines=${known} session=${session.data} />
    <${Alarm} error=${pipelines.error} />
    ${isKnown && html`<${PipelineAlarm} pipeline=${route.pipeline} />`}
    <main id="content" tabindex="-1">
      ${route.pipeline && !isKnown
        ? html`<p class="alarm bad" role="alert">${t("shell.noPipeline", { name: route.pipeline })}</p>`
        : html`<${Screen} key=${`${route.pipeline}/${route.screen}`} screen=${isKnown ? screen : OVERVIEW} route=${route} />`}
    </main>
    <${Notices} />
  </${Session.Provider}>`;
}

function skip(event) {
  event.preventDefault(); // the hash is the route
  document.getElementById("content").focus();
}

function Header({ route, pipelines, session }) {
  const one = pipelines.find((known) => known.name === route.pipeline);
  const entry = SCREENS.find(({ name }) => name === route.screen)?.under ?? route.screen;
  return html`<header>
    <a class="brand" href=${href("", "")}><img src="dashboard/icon.svg" alt="" width="26" height="26" /><span>Sightline</span></a>
    ${pipelines.length > 1 && html`<label class="choose"><span class="hidden">${t("shell.choose")}</span>
      <select value=${route.pipeline} onChange=${(event) => go(href(event.target.value, event.target.value ? entry : ""))}>
        <option value="">${t("shell.allPipelines")}</option>
        ${pipelines.map(({ name }) => html`<option value=${name}>${name}</option>`)}
      </select></label>`}
    ${one && html`<${Summary} pipeline=${one.name} />`}
    <nav aria-label=${t("shell.menu")}>${one && SCREENS.filter(({ under }) => !under).map(({ name, title }) => html`
      <a href=${href(one.name, name)} aria-current=${name === entry ? "page" : undefined}>${t(title)}</a>`)}
    </nav>
    <div class="user"><${Shortcuts} pipeline=${one?.name} /><${Theme} /><span class="faint small who">${t("shell.user", session)}</span>
      <button class="plain" title=${t("shell.user", session)} onClick=${logOut}>${t("shell.logOut")}</button></div>
  </header>`;
}

function Summary({ pipeline }) {
  const { data } = useStatus(pipeline);
  useEffect(() => {
    document.title = data ? `${pipeline}${data.ready ? "" : " !"} – Sightline` : "Sightline";
  }, [pipeline, data?.ready]);
  if (!data) return null;
  const live = data.streams.filter((stream) => stream.state === "live").length;
  const kind = !data.running || !data.ready ? "bad" : data.overloaded ? "warn" : "good";
  const text = data.running ? t("shell.streamsLive", { live, all: data.streams.length }) : t("shell.notRunning");
  return html`<p id="summary" role="status"><b>${pipeline}</b> <${Badge} kind=${kind}>${text}</${Badge}>
    <span class="faint small facts-of-run">${[data.device, data.running && duration(data.seconds)].filter(Boolean).join(" · ")}</span></p>`;
}

function Theme() {
  const [theme, setTheme] = useKept("theme", "");
  useEffect(() => {
    document.documentElement.style.colorScheme = theme || "light dark";
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  return html`<button class="plain" id="theme" onClick=${() => setTheme(next)} title=${t(THEME_TEXTS[theme])} aria-label=${t(THEME_TEXTS[theme])}>
    ${theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}</button>`;
}

async function logOut() {
  await fetch("logout", { method: "POST" }).catch(() => {});
  window.location.assign(document.baseURI.split("#")[0]);
}

function Alarm({ error }) {
  if (!error) return null;
  return html`<p id="alarm" class="alarm bad" role="alert">
    ${error.status === 401 ? t("shell.tokenGone") : error.status ? error.message : t("shell.noAnswer")}</p>`;
}

function PipelineAlarm({ pipeline }) {
  const { data, error } = useStatus(pipeline);
  if (error) return html`<${Alarm} error=${error} />`;
  return data?.overloaded && html`<p id="alarm" class="alarm warn" role="alert">${t("shell.overloaded")}</p>`;
}

function Screen({ screen, route }) {
  const [shown, setShown] = useState(null);
  const [failure] = useErrorBoundary((error) => console.error(error));
  useEffect(() => {
    let isGone = false;
    const show = (next) => isGone || setShown(next);
    screen?.load().then((module) => show({ component: module.default }), (error) => show({ error }));
    return () => (isGone = true);
  }, [screen]);
  const error = failure ?? shown?.error;
  if (error) return html`<${ErrorBox} error=${{ message: t("shell.cannotShow", { error: error.message }) }} />`;
  if (!shown) return html`<${Loading} />`;
  return html`<${shown.component} pipeline=${route.pipeline} rest=${route.rest} query=${route.query} />`;
}

render(html`<${App} />`, document.getElementById("app"));
