// Destinations outside, and how records get there.

import { count, duration } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Badge, Panel, Table } from "../basic.js";

const KINDS = { connected: "good", connecting: "warn", lost: "bad", waiting: "calm" };
const sum = (counts) => Object.values(counts).reduce((all, one) => all + one, 0);

/** Each destination with its state and its part of the outbox, and the collector of telemetry; nothing without any. */
export function Deliveries({ deliveries, telemetry }) {
  if (!deliveries.length && !telemetry) return null;
  return html`<${Panel} title=${t("system.deliveries")} id="deliveries" class="panel across">
    ${deliveries.length > 0 && html`<${Table} label=${t("system.deliveries")}
      head=${["destination", "state", "delivered", "waiting", "oldest", "refused", "dropped", "address"].map((name) => t(`system.${name}`))}
      rows=${deliveries.map((one) => [
        one.id,
        html`<${Badge} kind=${KINDS[one.state] ?? "calm"}>${one.state}</${Badge}>`,
        count(one.delivered),
        count(one.waiting),
        one.waiting ? duration(one.oldest_seconds) : "",
        count(one.refused),
        count(sum(one.dropped)),
        html`<span class="path">${one.address}</span>${one.error && html`<br /><span class="bad small path">${one.error}</span>`}`,
      ])} />`}
    ${telemetry && html`<h3>${t("system.telemetry")}</h3>
      <dl class="facts">${Object.entries(telemetry).map(([name, value]) => html`<div key=${name}>
        <dt>${name.replaceAll("_", " ")}</dt><dd>${typeof value === "number" ? count(value) : typeof value === "object" && value ? count(sum(value)) : String(value)}</dd></div>`)}</dl>`}
  </${Panel}>`;
}
