// What happened: a timeline for all cameras, the events as cards, and one event with its clip and why it is one.

import { useStatus } from "../api.js";
import { count } from "../format.js";
import { html, styles, useEffect, useKept, useNow, useRef } from "../lib.js";
import { Cards } from "../parts/events/cards.js";
import { Details } from "../parts/events/details.js";
import { Filters, useValues } from "../parts/events/filters.js";
import { RANGES, csvOf, everything, filtersOf, save, useFound, useSpan } from "../parts/events/search.js";
import { Timeline, totalOf, useTimeline } from "../parts/events/timeline.js";
import { attempt } from "../parts/notices.js";
import { go, href } from "../router.js";
import { t } from "../texts/index.js";

await styles("screens/wall.css");
await styles("screens/events.css");
await styles("screens/event.css");

const MOST_LANES = 24;

export default function Events({ pipeline, rest: [id], query }) {
  const filters = filtersOf(query);
  const span = useSpan(pipeline, query);
  const found = useFound(pipeline, filters, span);
  const known = useTimeline(pipeline, filters, span);
  const values = useValues(pipeline);
  const { data: status } = useStatus(pipeline);
  const [crop, setCrop] = useKept("eventCrops", false);
  const now = useNow(5000);
  const to = (changed, event) => href(pipeline, "events", event ? [event] : [], { ...query, ...changed });
  const records = found.records ?? [];
  const index = records.findIndex((one) => one.id === id);
  useMore(found, index, records.length);

  const names = status?.streams.map((one) => one.name) ?? [];
  const streams = (filters.stream ? [filters.stream] : [...new Set([...names, ...Object.keys(known?.counts.counts ?? {})])].filter(Boolean)).slice(0, MOST_LANES);
  const pick = ({ from, to: until }) => go(to({ range: "", from: from.toFixed(1), to: until.toFixed(1) }), { replace: Boolean(query.from) });
  const change = (changed) => go(to(changed), { replace: true });
  return html`<h1 class="hidden">${t("events.screen")}</h1>
    <${Filters} values=${values} filters=${filters} onChange=${change} />
    <section class="panel" aria-label=${t("events.timeline")}>
      <div class="bar timeline-bar">
        <div class="segments" role="group" aria-label=${t("events.range")}>${Object.keys(RANGES).map((name) => html`
          <button key=${name} aria-pressed=${query.range === name && !query.from} onClick=${() => go(to({ range: name, from: "", to: "" }))}>${t(`events.range_${name}`)}</button>`)}</div>
        ${span && !span.follows && html`<button onClick=${() => go(to({ range: "", from: "", to: "" }))}>${t("events.now")}</button>`}
        <span class="faint" role="status" id="found">${known && t(totalOf(known) === 1 ? "events.oneFound" : "events.found", { count: count(totalOf(known)) })}</span>
        <${Export} pipeline=${pipeline} filters=${filters} span=${span} />
      </div>
      ${span && html`<${Timeline} known=${known} span=${span} streams=${streams} marked=${index >= 0 ? Date.parse(records[index].time) / 1000 : undefined}
        onSpan=${pick} onStream=${(stream) => go(to({ stream: filters.stream ? "" : stream }))} />`}
    </section>
    <div class="bar list-bar"><div class="segments" role="group" aria-label=${t("events.images")}>
      <button aria-pressed=${!crop} onClick=${() => setCrop(false)}>${t("events.wholeImages")}</button>
      <button aria-pressed=${crop} onClick=${() => setCrop(true)}>${t("events.crops")}</button></div></div>
    <${Cards} pipeline=${pipeline} found=${found} link=${(record) => to({}, record.id)} crop=${crop} now=${now} />
    ${id && html`<${Details} key=${id} pipeline=${pipeline} id=${id} newer=${index > 0 ? records[index - 1].id : undefined} older=${index >= 0 ? records[index + 1]?.id : undefined}
      onGo=${(event) => go(to({}, event), { replace: true })} onClose=${() => go(to({}), { replace: false })} search=${query.range ? { range: query.range } : {}} />`}`;
}

// Ask for older events when the last one that is known is shown.
function useMore(found, index, amount) {
  const latest = useRef();
  latest.current = found;
  const isLast = index >= 0 && index >= amount - 1;
  useEffect(() => {
    if (isLast && !latest.current.isAll) latest.current.more();
  }, [isLast, amount]);
}

function Export({ pipeline, filters, span }) {
  const name = `${pipeline}-events`;
  const take = (make) => () => attempt(async () => make(await everything(pipeline, filters, span)));
  const asCsv = (records) => save(csvOf(records), `${name}.csv`, "text/csv");
  const asLines = (records) => save(records.map((one) => `${JSON.stringify(one)}\n`).join(""), `${name}.jsonl`, "application/jsonl");
  return html`<span class="export"><button disabled=${!span} onClick=${take(asCsv)}>${t("events.csv")}</button>
    <button disabled=${!span} onClick=${take(asLines)}>${t("events.jsonl")}</button></span>`;
}
