// What is kept on disk, what limits it, and the room that is left.

import { bytes, count } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Empty, Panel, Table } from "../basic.js";
import { Meter } from "./usage.js";

/** The disks that outputs are on, each with its outputs. */
export const Disks = ({ disks }) => html`<${Panel} title=${t("system.disks")}>
  ${disks.length === 0 && html`<${Empty}>${t("system.noDisks")}</${Empty}>`}
  ${disks.map((disk) => html`<div key=${disk.path} class="disk" data-disk=${disk.path}>
    <${Meter} label=${disk.path} share=${1 - disk.free_bytes / disk.total_bytes}
      text=${t("system.freeBytes", { free: bytes(disk.free_bytes), all: bytes(disk.total_bytes) })} />
    <${Table} label=${t("system.outputsOn", { disk: disk.path })}
      head=${[t("system.output"), t("system.files"), t("system.size"), t("system.limits")]}
      rows=${disk.outputs.map((one) => [
        html`<b>${one.id}</b> <span class="faint path">${one.path}</span>`,
        one.complete ? count(one.files) : t("system.more", { count: count(one.files) }),
        bytes(one.size_bytes),
        limitsOf(one),
      ])} /></div>`)}
</${Panel}>`;

function limitsOf({ limits }) {
  const parts = Object.entries(limits).flatMap(([name, value]) => (value !== null && typeof value === "object" ? Object.entries(value) : [[name, value]]));
  return parts.length
    ? parts.map(([name, value]) => html`<span key=${name} class="limit"><span class="faint">${name}</span> ${String(value)}</span>`)
    : html`<span class="warn">${t("system.noLimit")}</span>`;
}
