// What is asked of the history: filters and a span of time from the address, pages of records, and what is new.

import { address, path, read, useEvents } from "../../api.js";
import { useEffect, useRef, useState } from "../../lib.js";

export const RANGES = { hour: 3600, sixHours: 21_600, day: 86_400, week: 604_800 };
const FILTERS = ["stream", "rule", "label", "kind", "attribute", "text"];
const PAGE = 48;
const MOST_EXPORTED = 20_000;
const NEW_MS = 1500;
const MOST_LOOKS = 10;
const MARGIN = 0.05;
const SHORTEST_SECONDS = 120;

/** The filters in a query of the address: `{stream, rule, label, kind, attribute, text}`, those that are given. */
export const filtersOf = (query) => Object.fromEntries(FILTERS.filter((name) => query[name]).map((name) => [name, query[name]]));

/** Filters as the API takes them; the type is `event` but for messages. */
const asked = (filters) => ({ type: "event", ...filters });

/**
 * The span of time of a query, in seconds since 1970: `{from, to, follows, key}`. It follows the time unless it was picked.
 * Without a range it begins with the first event of the last day; undefined until that is known.
 */
export function useSpan(pipeline, query) {
  const picked = query.from && query.to;
  const seconds = RANGES[query.range];
  const [now, setNow] = useState(() => Date.now() / 1000);
  const [first, setFirst] = useState(undefined);
  useEffect(() => {
    if (picked) return undefined;
    setNow(Date.now() / 1000);
    const timer = setInterval(() => setNow(Date.now() / 1000), 10_000);
    return () => clearInterval(timer);
  }, [picked, query.range]);
  const filters = JSON.stringify(filtersOf(query));
  useEffect(() => {
    if (picked || seconds) return undefined;
    const asking = new AbortController();
    const to = address(path(pipeline, "history", "records"), { ...asked(JSON.parse(filters)), limit: 1 });
    read(to, { signal: asking.signal }).then(
      ({ records: [oldest] }) => setFirst(oldest ? Date.parse(oldest.time) / 1000 : Date.now() / 1000),
      () => asking.signal.aborted || setFirst(Date.now() / 1000 - RANGES.hour),
    );
    return () => asking.abort();
  }, [pipeline, filters, picked, seconds]);
  if (picked) return { from: Number(query.from), to: Number(query.to), follows: false, key: `${query.from}-${query.to}` };
  if (seconds) return { from: now - seconds, to: now, follows: true, key: query.range };
  if (first === undefined) return undefined;
  const length = Math.min(RANGES.day, Math.max(SHORTEST_SECONDS, (now - first) * (1 + MARGIN)));
  return { from: now - length, to: now, follows: true, key: "first" };
}

/**
 * The events that are found, newest first: `{records, error, isAll, more, fresh, showFresh}`. `fresh` are those that have
 * come meanwhile; `showFresh` puts them in front, `more` asks for older ones.
 */
export function useFound(pipeline, filters, span) {
  const [state, setState] = useState({ records: undefined, next: 0, error: null });
  const [fresh, setFresh] = useState([]);
  const asking = useRef();
  const latest = useRef();
  latest.current = { state, fresh };
  const isKnown = Boolean(span);
  const key = JSON.stringify([pipeline, filters, span?.key]);
  const query = (extra) => {
    const to = span.follows ? undefined : span.to;
    return address(path(pipeline, "history", "records"), { ...asked(filters), from: span.from, to, order: "newest", limit: PAGE, ...extra });
  };

  const load = async (after) => {
    asking.current?.abort();
    const mine = (asking.current = new AbortController());
    try {
      const { records, next } = await read(query(after ? { after } : {}), { signal: mine.signal });
      setState((known) => ({ records: after ? [...known.records, ...records] : records, next, error: null }));
    } catch (error) {
      if (!mine.signal.aborted) setState((known) => ({ ...known, error }));
    } finally {
      if (asking.current === mine) asking.current = undefined;
    }
  };

  useEffect(() => {
    if (!isKnown) return undefined;
    setFresh([]);
    load(0);
    return () => asking.current?.abort();
  }, [key, isKnown]);

  // The history may have an event later than it is announced, and never has what other filters leave out.
  const timer = useRef();
  const announced = useRef();
  const look = async () => {
    timer.current = undefined;
    const wanted = announced.current;
    const { records } = await read(query({})).catch(() => ({ records: null }));
    const known = latest.current.state.records;
    if (!known) return;
    const ids = new Set(known.map((one) => one.id));
    if (records) setFresh(records.filter((one) => !ids.has(one.id)));
    wanted.looks += 1;
    if (wanted.looks < MOST_LOOKS && !records?.some((one) => one.id === wanted.id)) timer.current ??= setTimeout(look, NEW_MS);
  };
  const { stream, rule, label, kind } = filters;
  useEvents(isKnown && span.follows ? pipeline : null, { type: "event", stream, rule, label, kind }, ({ id }) => {
    announced.current = { id, looks: 0 };
    timer.current ??= setTimeout(look, NEW_MS);
  });
  useEffect(() => () => clearTimeout(timer.current), [key]);

  return {
    records: state.records,
    error: state.error,
    isAll: state.records !== undefined && state.next === null,
    more: () => asking.current || !state.next || load(state.next),
    fresh,
    showFresh: () => {
      setState((known) => ({ ...known, records: [...latest.current.fresh, ...(known.records ?? [])] }));
      setFresh([]);
    },
  };
}

/** All events that are found, from the newest on, at most 20,000. */
export async function everything(pipeline, filters, span) {
  const found = [];
  let after;
  do {
    const query = { ...asked(filters), from: span.from, to: span.follows ? undefined : span.to, order: "newest", limit: 1000, after };
    const { records, next } = await read(address(path(pipeline, "history", "records"), query));
    found.push(...records);
    after = next;
  } while (after && found.length < MOST_EXPORTED);
  return found;
}

const COLUMNS = ["time", "stream", "label", "kind", "rule", "element", "frame", "pts_ns", "id"];

/** Events as CSV: what all have, then what their kinds add. A text that a spreadsheet takes for a formula gets an apostrophe. */
export function csvOf(records) {
  const added = [...new Set(records.flatMap((one) => Object.keys(one.event)))].filter((name) => !COLUMNS.includes(name));
  const rows = records.map((one) => [...COLUMNS.map((name) => one[name] ?? one.event[name]), ...added.map((name) => one.event[name])]);
  return [[...COLUMNS, ...added], ...rows].map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
}

function cell(value) {
  if (value === undefined || value === null) return "";
  const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Let the browser save a text as a file. */
export function save(text, name, type) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  Object.assign(document.createElement("a"), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
