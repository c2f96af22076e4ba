// The newest messages of the run; the same one again is counted.

import { dateAndTime, timeOfDay } from "../../format.js";
import { html } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Empty, Panel } from "../basic.js";

/** Messages, newest first. */
export const Messages = ({ messages }) => html`<${Panel} title=${t("system.messages")}>
  ${messages.length === 0
    ? html`<${Empty}>${t("system.noMessages")}</${Empty}>`
    : html`<ol class="log" tabindex="0" aria-label=${t("system.messages")}>${messages.map((one) => html`
      <li key=${`${one.kind} ${one.stream} ${one.element} ${one.text}`}>
        <time class="faint" title=${dateAndTime(one.time)}>${timeOfDay(one.time)}</time>
        <span class="logger faint">${[one.stream, one.element].filter(Boolean).join(" ")}</span>
        <span class="text">${one.text}${one.count > 1 && html` <span class="faint">${t("system.times", { count: one.count })}</span>`}</span></li>`)}</ol>`}
</${Panel}>`;
