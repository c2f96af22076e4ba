// How a stream is, in words and colours: one place for the wall, the camera and others.

import { count, duration } from "../format.js";
import { t } from "../texts/index.js";

const KINDS = { live: "good", overloaded: "warn", waiting: "calm", connecting: "calm", paused: "calm", ended: "faint" };
const TROUBLE = ["failed", "auth_failed", "lost", "stalled", "silent", "overloaded", "connecting"];
const QUIET = new Set(["live", "overloaded"]);
const SILENT_SECONDS = 0.8;
const SILENT_INTERVALS = 4;

/**
 * The state of a stream of the status: its `state`, but `silent` when a live camera has sent nothing for longer than it
 * should (the server waits longer before it calls it stalled), and `overloaded` when it drops frames for lack of time.
 */
export function stateOf(stream) {
  if (stream.state !== "live") return stream.state;
  const interval = stream.received > 1 ? stream.position_seconds / (stream.received - 1) : Infinity;
  if (stream.live && stream.silent_seconds > Math.max(SILENT_SECONDS, SILENT_INTERVALS * interval)) return "silent";
  return stream.overloaded ? "overloaded" : "live";
}

/** Whether frames come. */
export const isFlowing = (stream) => QUIET.has(stateOf(stream));

/** The colour of a state, as of a Badge. */
export const kindOf = (state) => KINDS[state] ?? "bad";

export const stateText = (state) => t(`wall.state_${state}`);

/** How much trouble a stream is in: less comes first. */
export const troubleOf = (stream) => {
  const place = TROUBLE.indexOf(stateOf(stream));
  return place < 0 ? TROUBLE.length : place;
};

/** Since when a stream is as it is, such as "lost for 12 s"; empty when not known. */
export function sinceText(stream) {
  const state = stateOf(stream);
  const seconds = state === "silent" ? stream.silent_seconds : stream.state_seconds;
  return seconds === null ? stateText(state) : t("wall.since", { state: stateText(state), time: duration(seconds) });
}

/** A sentence about a stream without its name and address in front. */
export const withoutName = (text) => text.replace(/^stream '[^']*' \([^)]*\): /, "");

/** Why a stream is in trouble, and when it is tried again; empty when it is not. */
export function causeText(stream) {
  const text = withoutName(stream.error || stream.cause || "");
  const next = stream.next_attempt_seconds;
  return text && next > 1 ? t("wall.nextAttempt", { text, seconds: Math.ceil(next) }) : text;
}

/** What is on the newest frame: pairs of label and number, most first. */
export function presentOf(stream) {
  if (!isFlowing(stream)) return [];
  return Object.entries(stream.present).sort(([one, many], [other, more]) => more - many || (one < other ? -1 : 1));
}

/** The facts that few need: size, codec, and what went wrong so far. */
export function factsOf(stream) {
  const reasons = Object.entries(stream.dropped).map(([reason, dropped]) => `${reason} ${count(dropped)}`);
  return [
    stream.size && stream.size.join("×"),
    stream.codec,
    stream.reconnects > 0 && t("wall.reconnects", { count: count(stream.reconnects) }),
    stream.stalls > 0 && t("wall.stalls", { count: count(stream.stalls) }),
    stream.damaged > 0 && t("wall.damaged", { count: count(stream.damaged) }),
    reasons.length > 0 && t("wall.dropped", { reasons: reasons.join(", ") }),
  ].filter(Boolean);
}
