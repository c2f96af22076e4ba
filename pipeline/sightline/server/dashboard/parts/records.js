// Events and messages of a stream as people read them: one line each.

import { address, path, read, useEvents } from "../api.js";
import { duration, timeOfDay } from "../format.js";
import { html, useEffect, useState } from "../lib.js";
import { href } from "../router.js";
import { t } from "../texts/index.js";
import { Empty } from "./basic.js";
import { withoutName } from "./streams.js";

/** A sentence about an event or a message. */
export function textOf(record) {
  if (record.record === "message") return withoutName(record.text);
  const { kind, rule, direction, state, occupancy, dwell_seconds: dwell } = record.event;
  const values = { label: record.label ?? t("records.object"), kind, rule: rule ?? "", occupancy, dwell: duration(dwell ?? 0) };
  if (kind === "line") return t(direction === "out" ? "records.lineOut" : "records.lineIn", values);
  if (kind === "zone" && direction === "enter") return t("records.enter", values);
  if (kind === "zone" && direction === "leave") return t("records.leave", values);
  if (kind === "dwell") return t("records.dwell", values);
  if (kind === "crowd") return t(state === "crowded" ? "records.crowded" : "records.cleared", values);
  return rule ? t("records.other", values) : kind;
}

/** Records as lines, events as links to what is known of them; `empty` stands there when there are none. */
export function RecordList({ pipeline, records, empty }) {
  if (!records.length) return html`<${Empty}>${empty}</${Empty}>`;
  return html`<ul class="records">${records.map((record) => html`
    <li key=${record.id} class=${record.record} data-kind=${record.kind ?? record.event.kind}>
      <time datetime=${record.time} class="faint">${timeOfDay(record.time)}</time>
      ${record.record === "event" ? html`<a href=${href(pipeline, "events", [record.id])}>${textOf(record)}</a>` : html`<span>${textOf(record)}</span>`}
    </li>`)}</ul>`;
}

/** The newest records of a stream, newest first, and new ones as they come; undefined before they are known. */
export function useNewest(pipeline, stream, most) {
  const [records, setRecords] = useState(undefined);
  const [after, setAfter] = useState(null);
  useEffect(() => {
    const asking = new AbortController();
    const to = address(path(pipeline, "events", "recent"), { stream, limit: most });
    read(to, { signal: asking.signal }).then(
      ({ records: known, newest }) => {
        setRecords(known.reverse());
        setAfter(newest);
      },
      () => asking.signal.aborted || setAfter(""),
    );
    return () => asking.abort();
  }, [pipeline, stream, most]);
  const add = (record) => setRecords((known = []) => [record, ...known].slice(0, most));
  useEvents(after === null ? null : pipeline, { stream, after }, add);
  return records;
}
