// Spans of time in the calendar of the browser: what is chosen, what came before it, and the bars in between.

const HOUR = 3600;
const DAY = 86_400;
const LONGEST_DAYS = 62; // of hours, an answer has no more
export const SPANS = ["hour", "today", "yesterday", "week", "own"];

/** Midnight of the day of a time (seconds), some days later; days of daylight saving have 23 or 25 hours. */
export function midnight(seconds, days = 0) {
  const day = new Date(seconds * 1000);
  return new Date(day.getFullYear(), day.getMonth(), day.getDate() + days).getTime() / 1000;
}

const dateOf = (text) => (/^\d{4}-\d{2}-\d{2}$/.test(text ?? "") ? new Date(`${text}T00:00`).getTime() / 1000 : NaN);

/** The date of a time as `<input type=date>` has it. */
export function dateText(seconds) {
  const day = new Date(seconds * 1000);
  return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/**
 * What a choice means at a time: `from` and `to` in seconds, `before` (a span as long, before it), the `step` to ask for,
 * and the length of bars (`bar`: minutes5, hour or day). `own` is from the day `first` to the day `last`.
 */
export function spanOf(name, { first, last }, now) {
  const today = midnight(now);
  if (name === "hour") return { from: now - HOUR, to: now, before: { from: now - 2 * HOUR, to: now - HOUR }, step: 60, bar: "minutes5" };
  if (name === "yesterday") return days(midnight(now, -1), today, midnight(now, -2), today);
  if (name === "week") return days(midnight(now, -6), now, midnight(now, -13), now);
  const begin = dateOf(first);
  const end = midnight(dateOf(last), 1);
  if (name === "own" && begin < end && begin < now) {
    const from = Math.max(begin, midnight(end, -LONGEST_DAYS));
    return days(from, Math.min(end, now), from - (end - from), now);
  }
  return days(today, now, midnight(now, -1), now);
}

// The span before is as long as what has passed of this one: today until noon is compared with yesterday until noon.
function days(from, to, earlier, now) {
  const length = to - from;
  const step = length <= 1.1 * DAY ? 600 : hourStep(from, now);
  return { from, to, before: { from: earlier, to: earlier + length }, step, bar: length <= 8.1 * DAY ? "hour" : "day" };
}

/** An hour, or half of one where hours of the time zone begin between those of UTC. */
export const hourStep = (...times) => (times.every((time) => new Date(time * 1000).getTimezoneOffset() % 60 === 0) ? HOUR : HOUR / 2);

/** When the bar begins in which a time is. */
export function barOf(seconds, bar) {
  if (bar === "minutes5") return Math.floor(seconds / 300) * 300;
  if (bar === "day") return midnight(seconds);
  const time = new Date(seconds * 1000);
  return seconds - time.getMinutes() * 60 - time.getSeconds();
}

/** When all bars of a span begin. */
export function barsOf({ from, to, bar }) {
  const found = [];
  for (let at = barOf(from, bar); at < to; at = nextBar(at, bar)) found.push(at);
  return found;
}

export const nextBar = (at, bar) => (bar === "day" ? midnight(at, 1) : at + (bar === "hour" ? HOUR : 300));
