// Sums of the columns that the history answers: by bar, by key, and by hour of the week.

import { barOf, barsOf } from "./spans.js";

/** Columns of a series that are chosen: `keep` says so of each. */
export const columnsOf = (table, series, keep = () => true) => table.columns.filter((one) => one.series === series && keep(one));

/** The sum of all values of columns; null when nothing is known. */
export function total(columns) {
  const known = columns.flatMap((one) => one.values).filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

/** The mean of what columns say on average, over the times at which something is known. */
export function mean(columns) {
  const means = columns.map(({ values }) => values.filter((value) => value !== null)).filter((known) => known.length)
    .map((known) => known.reduce((sum, value) => sum + value, 0) / known.length);
  return means.length ? means.reduce((sum, value) => sum + value, 0) : null;
}

/** The keys of columns by the sum of their values, the largest first, each with its columns. */
export function byKey(columns, keyOf = (one) => one.key) {
  const groups = new Map();
  for (const one of columns) groups.set(keyOf(one), [...(groups.get(keyOf(one)) ?? []), one]);
  return [...groups].map(([key, own]) => ({ key, columns: own, total: total(own) ?? 0 })).sort((one, other) => other.total - one.total);
}

/** The sums of columns in each bar of a span: `{times, values}`; null where nothing is known. */
export function inBars(table, columns, span) {
  const times = barsOf(span);
  const place = new Map(times.map((time, index) => [time, index]));
  const values = times.map(() => null);
  table.times.forEach((time, index) => {
    const at = place.get(barOf(Math.max(time, span.from), span.bar));
    for (const one of at === undefined ? [] : columns) {
      if (one.values[index] !== null) values[at] = (values[at] ?? 0) + one.values[index];
    }
  });
  return { times, values };
}

/** The mean number in each hour of the week: 7 rows (Monday first) of 24; null where nothing is known. */
export function inWeek(table, columns) {
  const hours = new Map();
  table.times.forEach((time, index) => {
    const known = columns.map((one) => one.values[index]).filter((value) => value !== null);
    if (!known.length) return;
    const hour = barOf(time, "hour");
    hours.set(hour, (hours.get(hour) ?? 0) + known.reduce((sum, value) => sum + value, 0));
  });
  const cells = Array.from({ length: 7 }, () => Array.from({ length: 24 }, () => []));
  for (const [hour, value] of hours) {
    const at = new Date(hour * 1000);
    cells[(at.getDay() + 6) % 7][at.getHours()].push(value);
  }
  return cells.map((row) => row.map((known) => (known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null)));
}
