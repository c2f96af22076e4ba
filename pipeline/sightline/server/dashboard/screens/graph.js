// The pipeline as a graph while it runs: what each step costs, where frames wait, and which step keeps the others waiting.

import { path, useRead, useStatus } from "../api.js";
import { count, milliseconds, percent, rate } from "../format.js";
import { html, styles } from "../lib.js";
import { Empty, ErrorBox, Loading, Panel, Table } from "../parts/basic.js";
import { Canvas } from "../parts/graph/canvas.js";
import { isFull, shareOf, useFigures } from "../parts/graph/figures.js";
import { InspectButton, Inspector } from "../parts/graph/inspector.js";
import { StepPanel } from "../parts/graph/step.js";
import { go, href } from "../router.js";
import { t } from "../texts/index.js";

await styles("screens/graph.css");

const GRAPH_EVERY_MS = 4000;
const CODE = new Set(["apply", "infer", "python"]);
const DRAWN = new Set(["draw", "privacy"]);

export default function GraphScreen({ pipeline, rest, query }) {
  const graph = useRead(path(pipeline, "graph"), GRAPH_EVERY_MS);
  const status = useStatus(pipeline).data;
  const figures = useFigures(status, graph.data);
  if (!graph.data) return graph.error ? html`<${ErrorBox} error=${graph.error} />` : html`<${Loading} />`;
  const selected = rest.length === 2 && rest[0] !== "inspect" ? rest.join("/") : null;
  const step = rest[0] === "step" && graph.data.steps.find((one) => one.id === rest[1]);
  const close = () => go(href(pipeline, "graph"), { replace: true });
  const select = (box) => go(href(pipeline, "graph", box.key === selected ? [] : [box.kind, box.id]), { replace: true });
  const { streams } = graph.data;
  const inspect = (stream, from) => go(href(pipeline, "graph", ["inspect", stream], { step: from }), { replace: true });
  const isInspecting = rest[0] === "inspect" && streams.includes(rest[1]);
  if (isInspecting) {
    const back = () => go(href(pipeline, "graph", query.step ? ["step", query.step] : []), { replace: true });
    return html`<h1 class="title">${t("inspect.title")}</h1>
      <${Inspector} pipeline=${pipeline} streams=${streams} stream=${rest[1]} wanted=${query.step} onStream=${inspect} onBack=${back} />`;
  }
  return html`<div class="graph-title"><h1 class="title">${t("graph.title")}</h1>
      <${InspectButton} onClick=${() => inspect(streams[0])} disabled=${!streams.length} /></div>
    ${graph.data.stages.length === 0 && html`<${Empty}>${t("graph.notBegun")}</${Empty}>`}
    <${Verdict} figures=${figures} graph=${graph.data} />
    <div class="graph-work ${step ? "open" : ""}">
      <${Canvas} graph=${graph.data} figures=${figures} status=${status} selected=${selected} onSelect=${select} />
      ${step && html`<${StepPanel} key=${step.id} pipeline=${pipeline} step=${step} onClose=${close}>
        <p class="graph-inspect"><${InspectButton} onClick=${() => inspect(streams[0], step.id)} disabled=${!streams.length} /></p>
      </${StepPanel}>`}
    </div>
    ${figures && html`<div class="panels graph-tables">
      <${Steps} graph=${graph.data} figures=${figures} /><${Queues} figures=${figures} />
      ${status.deliveries.length > 0 && html`<${Deliveries} deliveries=${status.deliveries} />`}
    </div>`}`;
}

// In words: what keeps the pipeline from being faster, why that is so, and what helps.
function Verdict({ figures, graph }) {
  if (!figures) return html`<p class="graph-verdict faint" role="status">${t("graph.measuring")}</p>`;
  const { bottleneck } = figures;
  const { kind, id, busiest, queue } = bottleneck;
  if (kind === "none") {
    const text = busiest ? t("graph.why_none", { id: busiest.slowest.id, share: percent(busiest.busy) }) : t("graph.why_nothing");
    return html`<p class="graph-verdict good" id="bottleneck"><span aria-hidden="true">✓</span><span>${text}</span></p>`;
  }
  const sentences = [t(`graph.why_${kind}`, { id, share: percent(bottleneck.share) })];
  if (queue && isFull(queue)) sentences.push(t("graph.why_full"));
  if (bottleneck.dropped > 0.05) sentences.push(t("graph.why_dropped", { dropped: rate(bottleneck.dropped) }));
  if (kind === "step" && bottleneck.others.length) sentences.push(t("graph.shared", { others: bottleneck.others.join(", ") }));
  return html`<div class="graph-verdict bad" id="bottleneck"><span aria-hidden="true">⚠</span>
    <div><p><b>${sentences[0]}</b> ${sentences.slice(1).join(" ")}</p><p class="small">${t(`graph.help_${kind === "step" ? kindOf(graph, id) : "source"}`)}</p></div>
  </div>`;
}

function kindOf(graph, id) {
  const step = graph.steps.find((one) => one.id === id);
  if (!step) return "other";
  if (CODE.has(step.element)) return "code";
  if (step.engine) return "model";
  if (DRAWN.has(step.element)) return "draw";
  return step.is_sink ? "sink" : "other";
}

function Steps({ graph, figures }) {
  const head = ["step", "fpsHead", "busyHead", "cpu", "frameMs", "p95Head", "engine", "threadHead", "runs", "saved"].map((key) => t(`graph.${key}`));
  const rows = graph.steps.map((step) => {
    const now = figures.steps.get(step.id);
    if (!now) return [step.id, ...Array(9).fill("–")];
    return [
      step.id, rate(now.fps), percent(shareOf(now)), percent(now.cores), now.frameMs.toFixed(1), milliseconds(now.p95),
      [step.engine, step.device].filter(Boolean).join(" · "), step.stage ?? "–",
      now.runs === undefined ? "–" : count(now.runs), now.saved === undefined ? "–" : count(now.saved),
    ];
  });
  return html`<${Panel} title=${t("graph.steps")}><${Table} head=${head} rows=${rows} label=${t("graph.steps")} /></${Panel}>`;
}

function Queues({ figures }) {
  const head = ["queue", "depth", "age", "policy", "dropped", "blocked"].map((key) => t(`graph.${key}`));
  const rows = [...figures.queues.values()].map((queue) => [
    queue.name, `${queue.depth} / ${queue.capacity}`, milliseconds(1000 * queue.age), t(`graph.policy_${queue.policy}`),
    rate(queue.dropped), percent(Math.min(1, queue.blocked)),
  ]);
  return html`<${Panel} title=${t("graph.queues")}><${Table} head=${head} rows=${rows} label=${t("graph.queues")} /></${Panel}>`;
}

function Deliveries({ deliveries }) {
  const head = ["destination", "address", "state", "delivered", "depth", "age"].map((key) => t(`graph.${key}`));
  const rows = deliveries.map((one) => [
    one.id, one.address, t(`graph.delivery_${one.state}`), count(one.delivered), count(one.waiting), milliseconds(1000 * one.oldest_seconds),
  ]);
  return html`<${Panel} title=${t("graph.deliveries")}><${Table} head=${head} rows=${rows} label=${t("graph.deliveries")} /></${Panel}>`;
}
