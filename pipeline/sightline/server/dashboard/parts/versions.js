// The versions of a configuration: who made them, whether they worked, and the way back.

import { change, path } from "../api.js";
import { dateAndTime } from "../format.js";
import { html, useState } from "../lib.js";
import { href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";
import { Badge, Dialog, ErrorBox, Table } from "./basic.js";
import { notify } from "./notices.js";

const PROBATION_SECONDS = 5;

export function Versions({ pipeline, versions, present, onChanged }) {
  const isAdmin = useMay("admin");
  const [wanted, setWanted] = useState(null);
  const rows = [...versions].reverse().map((one) => [
    html`<b>${one.version}</b>`,
    dateAndTime(one.time),
    one.by || t("configuration.byFile"),
    one.etag === present?.etag
      ? html`<${Badge} kind="good">${t("configuration.present")}</${Badge}>`
      : html`<span class=${one.proven ? "" : "warn"}>${t(one.proven ? "configuration.yes" : "configuration.notYet")}</span>`,
    one.etag !== present?.etag && html`<a href=${href(pipeline, "configuration", ["difference"], { with: one.etag })}>${t("configuration.tabDifference")}</a>`,
    isAdmin && one.etag !== present?.etag && html`
      <button onClick=${() => setWanted(one)} aria-label=${`${t("configuration.back")}: ${t("configuration.versionName", one)}`}>${t("configuration.back")}</button>`,
  ]);
  const head = ["version", "appliedAt", "by", "worked"].map((name) => t(`configuration.${name}`));
  return html`<div class="panel versions">
      <${Table} label=${t("configuration.tabVersions")} head=${[...head, html`<span class="hidden">${t("configuration.tabDifference")}</span>`, html`<span class="hidden">${t("configuration.back")}</span>`]} rows=${rows} />
    </div>
    ${wanted && html`<${Back} pipeline=${pipeline} version=${wanted} onClose=${() => setWanted(null)} onChanged=${onChanged} />`}`;
}

function Back({ pipeline, version, onClose, onChanged }) {
  const [isGoing, setGoing] = useState(false);
  const [error, setError] = useState(null);
  const goBack = async () => {
    setGoing(true);
    setError(null);
    try {
      const query = { to: version.etag, prove: PROBATION_SECONDS };
      await change("POST", path(pipeline, "configuration", "rollback"), undefined, { query, patienceMs: 400_000 });
      notify(t("configuration.backTo", version));
      onChanged();
      onClose();
    } catch (failure) {
      setError(failure);
      setGoing(false);
    }
  };
  return html`<${Dialog} title=${t("configuration.back")} onClose=${onClose}>
    <p>${t("configuration.backQuestion", { version: version.version, seconds: PROBATION_SECONDS })}</p>
    <${ErrorBox} error=${error} />
    ${isGoing && html`<progress aria-label=${t("configuration.checking")}></progress>`}
    <div class="bar actions">
      <button class="main" disabled=${isGoing} onClick=${goBack}>${t("configuration.back")}</button>
      <button disabled=${isGoing} onClick=${onClose}>${t("configuration.cancel")}</button>
    </div>
  </${Dialog}>`;
}
