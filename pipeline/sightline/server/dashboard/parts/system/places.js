// What runs where, by what, and why.

import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Badge, Panel, Table } from "../basic.js";

/** The device of the run, the devices of the machine, and where each stream and step works. */
export const Places = ({ system }) => html`<${Panel} title=${t("system.places")} class="panel across">
  ${system.device && html`<p><b>${system.device}</b> <span class="faint small">${system.device_reason}</span></p>`}
  <ul class="devices">${system.devices.map((one) => html`<li key=${one.name}>
    <${Badge} kind=${one.usable ? "good" : "faint"}>${one.name}</${Badge}> <span class="faint small">${one.detail}</span></li>`)}</ul>
  <${Table} label=${t("system.places")} head=${[t("system.part"), t("system.runsOn"), t("system.engine"), t("system.details")]}
    rows=${system.places.map((one) => [
      html`<b>${one.name}</b> <span class="faint">${one.part === "stream" ? t("system.stream") : one.element === one.name ? "" : one.element}</span>`,
      one.runs_on ?? "–",
      one.engine ?? "",
      html`<span class="faint path">${Object.entries(one.details).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`).join(" · ")}</span>`,
    ])} />
</${Panel}>`;

/** Versions of Sightline, Python, the system and libraries. */
export const Versions = ({ versions }) => html`<${Panel} title=${t("system.versions")}>
  <dl class="facts versions">${Object.entries(versions).map(([name, version]) => html`<div key=${name}><dt>${name}</dt><dd>${version}</dd></div>`)}</dl>
</${Panel}>`;
