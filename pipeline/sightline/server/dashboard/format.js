// Numbers, times and sizes as people read them, in the language of the page.

import { LANGUAGE } from "./texts/index.js";

const whole = new Intl.NumberFormat(LANGUAGE);
const clock = new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "medium" });
const moment = new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "medium" });
const SIZES = ["B", "KiB", "MiB", "GiB", "TiB"];

export const count = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(2)} M` : whole.format(value));
export const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
export const percent = (share) => `${(100 * share).toFixed(0)} %`;
export const milliseconds = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(0)} ms`);

/** A size in bytes. */
export function bytes(value) {
  let size = 0;
  while (value >= 1024 && size < SIZES.length - 1) {
    value /= 1024;
    size += 1;
  }
  return `${value >= 10 || size === 0 ? value.toFixed(0) : value.toFixed(1)} ${SIZES[size]}`;
}

/** A duration in seconds. */
export function duration(seconds) {
  const known = Math.max(0, Math.floor(seconds));
  if (known < 60) return `${known} s`;
  if (known < 3600) return `${Math.floor(known / 60)} min`;
  if (known < 172_800) return `${Math.floor(known / 3600)} h ${Math.floor((known % 3600) / 60)} min`;
  return `${Math.floor(known / 86_400)} days`;
}

const dateOf = (time) => new Date(typeof time === "number" ? time * 1000 : time);
/** The time of day of seconds since 1970, or of a time in RFC 3339. */
export const timeOfDay = (time) => clock.format(dateOf(time));
export const dateAndTime = (time) => moment.format(dateOf(time));
