// The machine and the process: what is used, what is kept on disk, what is delivered, what runs where and why, and the log.

import { path, useRead, useStatus } from "../api.js";
import { html, styles } from "../lib.js";
import { ErrorBox, Loading } from "../parts/basic.js";
import { Audit } from "../parts/system/audit.js";
import { Deliveries } from "../parts/system/deliveries.js";
import { Disks } from "../parts/system/disks.js";
import { Log } from "../parts/system/log.js";
import { Messages } from "../parts/system/messages.js";
import { Places, Versions } from "../parts/system/places.js";
import { Graphics, Memory, Processor } from "../parts/system/usage.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/system.css");

const EVERY_MS = 2000;

export default function System({ pipeline }) {
  const { data: system, error } = useRead(path(pipeline, "system"), EVERY_MS);
  const { data: status } = useStatus(pipeline);
  const isAdmin = useMay("admin");
  if (!system || !status) return error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`;
  return html`<h1 class="hidden">${t("system.title")}</h1>
    <div class="panels system">
      <${Processor} pipeline=${pipeline} cpu=${system.cpu} />
      <${Memory} pipeline=${pipeline} memory=${system.memory} process=${status.process} />
      <${Graphics} gpus=${system.gpus} />
      <${Disks} disks=${system.disks} />
      <${Messages} messages=${status.messages} />
      <${Deliveries} deliveries=${status.deliveries} telemetry=${status.telemetry} />
      <${Places} system=${system} />
      <${Log} pipeline=${pipeline} />
      ${isAdmin && html`<${Audit} pipeline=${pipeline} />`}
      <${Versions} versions=${system.versions} />
    </div>`;
}
