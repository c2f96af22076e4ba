// How many came, how long they stayed and where they went: charts of the history for a span of time.

import { address, path, useRead, useStatus } from "../api.js";
import { count } from "../format.js";
import { html, styles, useEffect, useMemo, useNow, useRef } from "../lib.js";
import { Chart } from "../parts/analytics/chart.js";
import { Choice } from "../parts/analytics/choice.js";
import { HeatMap } from "../parts/analytics/heatmap.js";
import { WeekPattern } from "../parts/analytics/pattern.js";
import { SPANS, dateText, hourStep, midnight, nextBar, spanOf } from "../parts/analytics/spans.js";
import { byKey, columnsOf, inBars, inWeek, mean } from "../parts/analytics/sums.js";
import { Tiles } from "../parts/analytics/tiles.js";
import { ErrorBox, Loading } from "../parts/basic.js";
import { go, href } from "../router.js";
import { LANGUAGE, t } from "../texts/index.js";

await styles("screens/analytics.css");

const MINUTE = 60;
const MOST_SHOWN = 7;
const DIRECTIONS = ["in", "out"];
const place = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", month: "short", day: "numeric" });
const dayOf = (seconds) => day.format(new Date(seconds * 1000));
const list = (text) => (text ? text.split("\n") : []);

export default function Analytics({ pipeline, query }) {
  const now = Math.floor(useNow(MINUTE * 1000) / 1000 / MINUTE) * MINUTE + MINUTE;
  const name = SPANS.includes(query.span) ? query.span : "today";
  const span = useMemo(() => spanOf(name, query, now), [name, query.first, query.last, now]);
  const chosen = { streams: list(query.streams), labels: list(query.labels), rules: list(query.rules) };
  const set = (change) => go(href(pipeline, "analytics", [], { ...query, ...change }), { replace: true });
  const answers = useAnswers(pipeline, span, chosen.streams, now);
  const status = useStatus(pipeline).data;
  if (!answers.now || !status) {
    return answers.error ? html`<${ErrorBox} error=${answers.error} />` : html`<${Loading} />`;
  }
  const options = optionsOf(answers, status);
  const wanted = {
    label: (one) => chosen.labels.length === 0 || chosen.labels.includes(one.key),
    rule: (one) => chosen.rules.length === 0 || chosen.rules.includes(ruleOf(one)),
  };
  const shared = { pipeline, query, span, chosen, wanted, answers, set, now };
  return html`
    <h1 class="title">${t("analytics.title")}</h1>
    <${Controls} name=${name} query=${query} chosen=${chosen} options=${options} set=${set} now=${now} />
    <${ErrorBox} error=${answers.error} />
    <${Tiles} now=${answers.now} before=${answers.before} chosen=${wanted}
      stays=${answers.dwell?.zones.filter(wanted.rule)} staysBefore=${answers.dwellBefore?.zones.filter(wanted.rule)} />
    <div class="analytics">
      <${Counts} ...${shared} /><${Crossings} ...${shared} /><${Occupancy} ...${shared} /><${Dwell} ...${shared} />
      <${Week} ...${shared} /><${Heat} ...${shared} status=${status} />
    </div>`;
}

const SERIES = ["tracks", "crossings", "occupancy", "occupancy_max"];

// What a screen of one span needs. While the next minute is asked for, the last answer stays.
function useAnswers(pipeline, span, streams, now) {
  const ask = (part, { from, to }, more = {}) => address([path(pipeline, "history"), ...part].join("/"), { from, to, stream: streams, ...more });
  const tables = { series: SERIES, step: `${span.step}s` };
  const week = { from: Math.min(midnight(now, -7), span.from), to: now };
  const reads = {
    now: useRead(ask([], span, tables)),
    before: useRead(ask([], span.before, tables)),
    dwell: useRead(ask(["dwell"], span)),
    dwellBefore: useRead(ask(["dwell"], span.before)),
    week: useRead(ask([], week, { series: "tracks", step: `${hourStep(week.from, now)}s` })),
  };
  const key = `${pipeline} ${span.step} ${span.bar} ${streams} ${span.to - span.from > 7200 ? span.from : ""}`;
  const kept = useRef({ key });
  if (kept.current.key !== key) kept.current = { key };
  for (const [name, read] of Object.entries(reads)) {
    if (read.data) kept.current[name] = { data: read.data, span };
  }
  const known = Object.fromEntries(Object.keys(reads).map((name) => [name, kept.current[name]?.data]));
  const error = reads.now.error ?? reads.dwell.error ?? reads.week.error;
  return { ...known, error };
}

const ruleOf = (one) => (one.series === "crossings" ? one.key.slice(0, one.key.lastIndexOf(".")) : one.key);

function optionsOf({ now, before, week }, status) {
  const keys = (series, keyOf) => [...new Set([now, before, week].filter(Boolean).flatMap((table) => columnsOf(table, series).map(keyOf)))].sort();
  const rules = new Set([...keys("crossings", ruleOf), ...keys("occupancy", ruleOf)]);
  return { streams: status.streams.map((one) => one.name), labels: keys("tracks", (one) => one.key), rules: [...rules].sort() };
}

function Controls({ name, query, chosen, options, set, now }) {
  const choose = (key, part) => (names) => set({ [part]: names.join("\n") });
  const own = { first: query.first ?? dateText(midnight(now, -2)), last: query.last ?? dateText(now) };
  const date = (key) => html`<label>${t(`analytics.${key}`)} <input type="date" value=${own[key]} max=${dateText(now)}
    onChange=${(event) => event.target.value && set({ ...own, span: "own", [key]: event.target.value })} /></label>`;
  return html`<div class="bar" id="controls">
    <span class="group" role="group" aria-label=${t("analytics.span")}>${SPANS.map((one) => html`
      <button aria-pressed=${one === name} onClick=${() => set({ span: one, ...(one === "own" ? own : {}) })}>${t(`analytics.span_${one}`)}</button>`)}</span>
    ${name === "own" && html`${date("first")}${date("last")}`}
    ${options.streams.length > 1 && html`<${Choice} label=${t("analytics.streams")} options=${options.streams} chosen=${chosen.streams} onChange=${choose("streams", "streams")} />`}
    <${Choice} label=${t("analytics.label")} options=${options.labels} chosen=${chosen.labels} onChange=${choose("labels", "labels")} />
    <${Choice} label=${t("analytics.rule")} options=${options.rules} chosen=${chosen.rules} onChange=${choose("rules", "rules")} />
  </div>`;
}

const PER = { minutes5: "analytics.perMinutes5", hour: "analytics.perHour", day: "analytics.perDay" };
const fileOf = (pipeline, what, span) => `${pipeline}-${what}-${dateText(span.from)}`;
const placesOf = (times, span) => times.map((at) => (span.bar === "day" ? dayOf(at) : place.format(new Date(at * 1000))));
const endOf = (times, span) => (times.length ? nextBar(times.at(-1), span.bar) : span.to);

function Counts({ pipeline, span, wanted, answers }) {
  const groups = byKey(columnsOf(answers.now, "tracks", wanted.label)).filter((one) => one.total > 0);
  const rest = groups.slice(MOST_SHOWN).flatMap((one) => one.columns);
  const shown = groups.slice(0, MOST_SHOWN).map((one) => ({ name: one.key, ...inBars(answers.now, one.columns, span) }));
  const series = rest.length ? [...shown, { name: t("analytics.rest"), ...inBars(answers.now, rest, span) }] : shown;
  const times = inBars(answers.now, [], span).times;
  return html`<${Chart} title=${t("analytics.counts")} file=${fileOf(pipeline, "objects", span)} kind="stack" series=${series} times=${times}
    end=${endOf(times, span)} places=${placesOf(times, span)} placeTitle=${t("analytics.time")} text=${count} note=${t(PER[span.bar])} hint=${t("analytics.hintTracks")} />`;
}

function Crossings({ pipeline, span, wanted, answers }) {
  const columns = columnsOf(answers.now, "crossings", wanted.rule);
  const both = DIRECTIONS.map((direction) => columns.filter((one) => one.key.endsWith(`.${direction}`)));
  const series = both.some((own) => own.length)
    ? both.map((own, index) => ({ name: t(`analytics.${DIRECTIONS[index]}`), ...inBars(answers.now, own, span) })) : [];
  const times = inBars(answers.now, [], span).times;
  return html`<${Chart} title=${t("analytics.entries")} file=${fileOf(pipeline, "lines", span)} kind="bars" series=${series} times=${times}
    end=${endOf(times, span)} places=${placesOf(times, span)} placeTitle=${t("analytics.time")} text=${count} note=${t(PER[span.bar])} hint=${t("analytics.hintLines")} />`;
}

// A zone by its name alone, unless another has the same.
function zoneNames(columns) {
  const short = (one) => one.key.slice(one.key.indexOf(".") + 1);
  const uses = new Map();
  for (const one of columns) uses.set(short(one), (uses.get(short(one)) ?? 0) + 1);
  return (one) => (uses.get(short(one)) === 1 ? short(one) : `${short(one)} · ${one.stream}`);
}

function Occupancy({ pipeline, span, wanted, answers }) {
  const means = columnsOf(answers.now, "occupancy", wanted.rule).sort((one, other) => (mean([other]) ?? 0) - (mean([one]) ?? 0));
  const most = Math.floor(MOST_SHOWN / 2);
  const nameOf = zoneNames(means);
  const largest = new Map(columnsOf(answers.now, "occupancy_max").map((one) => [`${one.stream} ${one.key}`, one.values]));
  const series = means.slice(0, most).flatMap((one, index) => [
    { name: t("analytics.meanOf", { zone: nameOf(one) }), values: one.values, kindIndex: index },
    { name: t("analytics.maxOf", { zone: nameOf(one) }), values: largest.get(`${one.stream} ${one.key}`) ?? [], kindIndex: index, dash: [3, 3] },
  ]);
  const note = means.length > most ? t("analytics.mostZones", { shown: most, all: means.length }) : "";
  const times = answers.now.times;
  return html`<${Chart} title=${t("analytics.occupancy")} file=${fileOf(pipeline, "occupancy", span)} kind="lines" series=${series} times=${times} end=${span.to}
    places=${times.map((at) => place.format(new Date(at * 1000)))} placeTitle=${t("analytics.time")} text=${(value) => String(+value.toFixed(2))} note=${note} hint=${t("analytics.hintOccupancy")} />`;
}

const SECONDS = (seconds) => (seconds < 60 ? `${seconds} s` : seconds < 3600 ? `${seconds / 60} min` : `${seconds / 3600} h`);

function Dwell({ pipeline, span, wanted, answers }) {
  const { zones, limits } = answers.dwell ? { ...answers.dwell, zones: answers.dwell.zones.filter(wanted.rule) } : { zones: [], limits: [] };
  const nameOf = zoneNames(zones);
  const names = [...limits.map((limit, index) => (index ? `${SECONDS(limits[index - 1])}–${SECONDS(limit)}` : `< ${SECONDS(limit)}`)), `> ${SECONDS(limits.at(-1) ?? 0)}`];
  const series = answers.dwell && zones.slice(0, MOST_SHOWN).map((one) => ({ name: nameOf(one), values: one.stays }));
  const note = zones.length > MOST_SHOWN ? t("analytics.mostZones", { shown: MOST_SHOWN, all: zones.length }) : t("analytics.stays");
  return html`<${Chart} title=${t("analytics.dwell")} file=${fileOf(pipeline, "dwell", span)} kind="stack" series=${series} names=${names} places=${names}
    placeTitle=${t("analytics.dwell")} text=${count} note=${note} hint=${t("analytics.hintDwell")} />`;
}

function Week({ pipeline, span, wanted, answers, now }) {
  const columns = answers.week ? columnsOf(answers.week, "tracks", wanted.label) : [];
  const cells = useMemo(() => inWeek(answers.week ?? { times: [] }, columns), [answers.week, columns.map((one) => one.key).join()]);
  const note = t("analytics.weekNote", { from: dayOf(Math.min(midnight(now, -7), span.from)), to: dayOf(now) });
  return html`<${WeekPattern} cells=${answers.week && cells} file=${fileOf(pipeline, "week", span)} note=${note} hint=${t("analytics.hintTracks")} />`;
}

function Heat({ pipeline, query, span, chosen, set, status }) {
  const streams = status.streams.map((one) => one.name).filter((name) => !chosen.streams.length || chosen.streams.includes(name));
  const stream = streams.includes(query.heat) ? query.heat : streams[0];
  const kind = query.kind === "paths" ? "paths" : "feet";
  const read = useRead(stream ? address(`${path(pipeline, "history")}/heatmap`, { stream, kind, label: chosen.labels, from: span.from, to: span.to }) : null);
  const kept = useRef({});
  const key = [pipeline, stream, kind, chosen.labels, span.bar].join("\n");
  if (read.data) kept.current = { key, heat: read.data };
  const size = status.streams.find((one) => one.name === stream)?.size ?? [16, 9];
  if (!stream) return null;
  return html`<${HeatMap} pipeline=${pipeline} stream=${stream} streams=${streams} kind=${kind} heat=${kept.current.key === key ? kept.current.heat : undefined}
    size=${size} onStream=${(heat) => set({ heat })} onKind=${(next) => set({ kind: next })} file=${fileOf(pipeline, `heat-${stream}-${kind}`, span)} hint=${t("analytics.hintHeat")} />`;
}
