// Events and messages of a stream as people read them: one line each.

import { address, path, read, useEvents } from "../api.js";
import { duration, timeOfDay } from "../format.js";
import { html, useEffect, useState } from "../lib.js";
import { href } from "../router.js";
import { t } from "../texts/index.js";
import { Empty } from "./basic.js";
import { withoutName } from "./streams.js";

// The sentence of each kind of event, or those of its directions and states.
const SENTENCES = {
  absence: { absent: "records.absent", present: "records.present" },
  camera_covered: { began: "records.cameraCovered", ended: "records.cameraUncovered" },
  camera_defocused: { began: "records.cameraDefocused", ended: "records.cameraFocused" },
  camera_frozen: { began: "records.cameraFrozen", ended: "records.cameraMoves" },
  camera_turned: { began: "records.cameraTurned", ended: "records.cameraTurnedBack" },
  combined: { begun: "records.combinedBegun", ended: "records.combinedEnded", "": "records.combined" },
  crowd: { crowded: "records.crowded", cleared: "records.cleared" },
  direction: { right: "records.directionRight", wrong: "records.directionWrong" },
  dwell: "records.dwell",
  drift: { began: "records.driftBegan", ended: "records.driftEnded" },
  flow: "records.flow",
  left: { left: "records.left", attended: "records.leftAttended", removed: "records.leftRemoved", unwatched: "records.leftUnwatched" },
  line: { in: "records.lineIn", out: "records.lineOut" },
  loitering: { began: "records.loiteringBegan", ended: "records.loiteringEnded" },
  near: { near: "records.near", apart: "records.apart" },
  parking: { occupied: "records.occupied", overtime: "records.overtime", free: "records.free" },
  queue: { long: "records.queueLong", short: "records.queueShort" },
  removed: { moved: "records.removedMoved", vanished: "records.removedVanished" },
  served: { served: "records.served", gave_up: "records.gaveUp" },
  speed: "records.speed",
  stopped: { stopped: "records.stopped", moving: "records.movedOn", gone: "records.stoppedGone" },
  wait: { long: "records.waitLong", short: "records.waitShort" },
  zone: { enter: "records.enter", leave: "records.leave" },
};
const LASTED = ["seconds", "dwell_seconds", "stopped_seconds", "occupied_seconds", "wait_seconds"];

const own = (table, name) => (Object.hasOwn(table, name) ? table[name] : undefined);

/** A sentence about an event or a message. */
export function textOf(record) {
  if (record.record === "message") return withoutName(record.text);
  const { kind, rule, direction, state, how } = record.event;
  const lasted = LASTED.map((name) => record.event[name]).find((seconds) => seconds !== undefined);
  const values = { ...record.event, label: record.label ?? t("records.object"), rule: rule ?? "", time: duration(lasted ?? 0) };
  const sentence = own(SENTENCES, kind);
  const key = typeof sentence === "object" ? own(sentence, direction ?? state ?? how ?? "") : sentence;
  if (key) return t(key, values);
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
