// How busy processor, memory and GPUs are, now and over the last hour.

import { address, path, useRead } from "../../api.js";
import { bytes, count, percent } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { useColours } from "../analytics/colours.js";
import { Plot } from "../analytics/plot.js";
import { Panel } from "../basic.js";

const HISTORY_EVERY_MS = 10_000;
const FEWEST_POINTS = 30;
const HEIGHT = 130;
const WARN = 0.8;
const BAD = 0.95;
const MIB = 1024 ** 2;
const cores = (value) => value.toFixed(value < 10 ? 2 : 1);

/** A bar that says how much of something is used: `share` from 0 to 1. With `isBusyBad` a full one is alarming. */
export function Meter({ label, share, text, isBusyBad = true }) {
  const full = Math.min(Math.max(share, 0), 1);
  const kind = !isBusyBad || full < WARN ? "" : full < BAD ? "warn" : "bad";
  return html`<div class="meter-row"><span class="meter-label">${label}</span>
    <div class="meter ${kind}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(100 * full)}
      aria-valuetext=${text}><span style=${{ width: `${100 * full}%` }}></span></div>
    <span class="meter-text">${text}</span></div>`;
}

/** Processor time of the pipeline and of each core. */
export function Processor({ pipeline, cpu }) {
  const all = cpu.cores?.length;
  const used = cpu.cores?.reduce((sum, one) => sum + one, 0);
  return html`<${Panel} title=${t("system.processor")}>
    <${Meter} label=${t("system.pipeline")} share=${cpu.process / cpu.usable}
      text=${t("system.ofCores", { used: cores(cpu.process), all: cpu.usable })} />
    ${all && html`<${Meter} label=${t("system.machine")} share=${used / all} text=${t("system.ofCores", { used: cores(used), all })} />
      <div class="cores" role="img" aria-label=${t("system.cores", { shares: cpu.cores.map(percent).join(", ") })}>
        ${cpu.cores.map((share, index) => html`<span key=${index} class="core" title=${percent(share)}><i style=${{ height: `${100 * share}%` }}></i></span>`)}
      </div>`}
    <${Hour} pipeline=${pipeline} series="cpu" unit=${t("system.unitCores")} shown=${(value) => value} />
  </${Panel}>`;
}

/** Memory of the pipeline and of the machine. */
export function Memory({ pipeline, memory, process }) {
  const own = memory.process ?? 0;
  return html`<${Panel} title=${t("system.memory")}>
    <${Meter} label=${t("system.pipeline")} share=${memory.total ? own / memory.total : 0} text=${bytes(own)} />
    ${memory.total && html`<${Meter} label=${t("system.machine")} share=${memory.used / memory.total}
      text=${t("system.ofBytes", { used: bytes(memory.used), all: bytes(memory.total) })} />`}
    <p class="faint small">${t("system.process", { threads: count(process.threads), files: process.open_files ?? "–" })}</p>
    <${Hour} pipeline=${pipeline} series="memory" unit="MiB" shown=${(value) => value / MIB} isProcessOnly />
  </${Panel}>`;
}

/** What the run holds of the GPUs; nothing without any. */
export function Graphics({ gpus }) {
  const known = Object.entries(gpus);
  return known.length > 0 && html`<${Panel} title=${t("system.gpus")}>
    ${known.map(([name, use]) => html`<${Meter} key=${name} label=${name} share=${use.used_bytes / use.limit_bytes}
      text=${t("system.ofBytes", { used: bytes(use.used_bytes), all: bytes(use.limit_bytes) })} />`)}
    <p class="faint small">${t("system.gpuNote")}</p>
  </${Panel}>`;
}

// The last hour; a run that is younger begins at the left edge after some minutes.
function Hour({ pipeline, series, unit, shown, isProcessOnly = false }) {
  const colours = useColours();
  const { data } = useRead(address(path(pipeline, "history"), { series }), HISTORY_EVERY_MS);
  const columns = (data?.columns ?? []).filter(({ key }) => key === "process" || !isProcessOnly);
  const first = Math.min(...columns.map(({ values }) => values.findIndex((value) => value !== null)));
  if (!columns.length) return html`<p class="faint small">${t("system.noHistory")}</p>`;
  const from = Math.max(0, Math.min(first, data.times.length - FEWEST_POINTS));
  const lines = columns.map(({ key, values }) => ({
    name: t(`system.${key === "process" ? "pipeline" : "machine"}`),
    colour: colours.kinds[key === "process" ? 0 : 7],
    values: values.slice(from).map((value) => (value === null ? null : shown(value))),
    fill: key === "process" ? `${colours.kinds[0]}33` : undefined,
  }));
  const title = t("system.lastHour", { unit });
  return html`<p class="faint small hour">${title}
      ${lines.length > 1 && lines.map((one) => html`<span key=${one.name} class="key"><i style=${{ background: one.colour }}></i>${one.name}</span>`)}</p>
    <${Plot} kind="lines" times=${data.times.slice(from)} end=${data.times.at(-1) + data.step} series=${lines} colours=${colours}
      height=${HEIGHT} label=${title} />`;
}
