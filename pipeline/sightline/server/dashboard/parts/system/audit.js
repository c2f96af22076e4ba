// Who changed what, and how it ended; for admins.

import { path, useRead } from "../../api.js";
import { dateAndTime } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Badge, Empty, ErrorBox, Panel, Table } from "../basic.js";

const EVERY_MS = 10_000;
const KINDS = { done: "good", refused: "warn", failed: "bad" };

/** The newest changes that were asked for. */
export function Audit({ pipeline }) {
  const { data, error } = useRead(path(pipeline, "audit"), EVERY_MS);
  return html`<${Panel} title=${t("system.audit")}>
    <${ErrorBox} error=${error} />
    ${data?.length === 0 && html`<${Empty}>${t("system.noChanges")}</${Empty}>`}
    ${data?.length > 0 && html`<${Table} label=${t("system.audit")}
      head=${[t("system.when"), t("system.who"), t("system.action"), t("system.result"), t("system.values")]}
      rows=${data.map((one) => [
        dateAndTime(one.time),
        html`${one.actor} <span class="faint">${[one.role, one.address].filter(Boolean).join(", ")}</span>`,
        html`${one.action} <b>${one.target}</b>`,
        html`<${Badge} kind=${KINDS[one.result] ?? "calm"}>${one.result ?? t("system.goesOn")}</${Badge}>`,
        html`<span class="faint path">${one.error ?? changesOf(one.changes)}</span>`,
      ])} />`}
  </${Panel}>`;
}

const shown = (value) => (value === undefined ? "–" : JSON.stringify(value));
const changesOf = (changes) =>
  Array.isArray(changes) ? changes.map((one) => `${one.path}: ${shown(one.before)} → ${shown(one.after)}`).join("; ") : String(changes ?? "");
