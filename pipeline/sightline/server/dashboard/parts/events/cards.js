// Events as cards with an image, newest first; more come as one scrolls.

import { address, path } from "../../api.js";
import { duration, timeOfDay } from "../../format.js";
import { html, useEffect, useRef, useState } from "../../lib.js";
import { LANGUAGE, t } from "../../texts/index.js";
import { Badge, Empty, ErrorBox, Loading } from "../basic.js";
import { textOf } from "../records.js";

const day = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", day: "numeric", month: "short" });

const SEVERITIES = { info: "faint", low: "calm", medium: "warn", high: "bad", critical: "bad" };

/** The image of an event: of its object with `crop`, where there is one. What stands for it when there is none. */
export function Thumbnail({ pipeline, record, crop = false, eager = false }) {
  const [failed, setFailed] = useState(0);
  const tries = crop ? [true, false] : [false];
  if (failed >= tries.length) return html`<div class="no-image" aria-hidden="true">${record.label ?? record.event.kind}</div>`;
  const src = address(path(pipeline, "events", record.id, "thumbnail.jpg"), { crop: tries[failed] }).href;
  return html`<img src=${src} alt="" loading=${eager ? "eager" : "lazy"} decoding="async" onError=${() => setFailed(failed + 1)} />`;
}

/** When something was, as people say it: the time, with the day when it was another one, and how long ago. */
export function When({ time, now }) {
  const date = new Date(time);
  const isToday = date.toDateString() === new Date(now).toDateString();
  const ago = (now - date) / 1000;
  return html`<time datetime=${time}>${isToday ? "" : `${day.format(date)} `}${timeOfDay(time)}</time>${ago < 3600 && html`
    <span class="faint"> · ${t("events.ago", { time: duration(ago) })}</span>`}`;
}

/** The list: `found` is what `useFound` returns, `link(record)` the address of an event, `crop` shows objects. */
export function Cards({ pipeline, found, link, crop, now }) {
  const { records, error, isAll, more, fresh, showFresh } = found;
  const end = useRef();
  const latest = useRef();
  latest.current = more;
  const amount = records?.length;
  useEffect(() => {
    if (!end.current) return undefined;
    const watcher = new IntersectionObserver((entries) => entries.at(-1).isIntersecting && latest.current(), { rootMargin: "600px" });
    watcher.observe(end.current);
    return () => watcher.disconnect();
  }, [amount, isAll]);
  if (!records) return error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`;
  return html`<div class="found">
    <div class="fresh" aria-live="polite">${fresh.length > 0 && html`<button class="main" onClick=${showFresh}>${t(fresh.length === 1 ? "events.oneNew" : "events.new", { count: fresh.length })}</button>`}</div>
    ${records.length === 0 && html`<${Empty}>${t("events.none")}</${Empty}>`}
    <ul class="event-cards">${records.map((record) => html`<${Card} key=${record.id} pipeline=${pipeline} record=${record} to=${link(record)} crop=${crop} now=${now} />`)}</ul>
    <${ErrorBox} error=${error} />
    ${!isAll && html`<div ref=${end} class="more"><button onClick=${more}>${t("events.more")}</button></div>`}
  </div>`;
}

function Card({ pipeline, record, to, crop, now }) {
  const { severity } = record.event;
  return html`<li><a class="event-card" href=${to} data-event=${record.id}>
    <span class="shown"><${Thumbnail} pipeline=${pipeline} record=${record} crop=${crop} /></span>
    <span class="said">${textOf(record)}${Object.hasOwn(SEVERITIES, severity) && html` <${Badge} kind=${SEVERITIES[severity]}>${t(`events.severity_${severity}`)}</${Badge}>`}</span>
    <span class="small"><b>${record.stream}</b> · <${When} time=${record.time} now=${now} /></span>
  </a></li>`;
}
