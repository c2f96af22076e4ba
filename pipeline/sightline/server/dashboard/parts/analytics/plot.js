// Charts by uPlot: bars that stand on each other, bars of two directions, and lines.

import { html, script, styles, useEffect, useLayoutEffect, useRef, useState } from "../../lib.js";
import { LANGUAGE } from "../../texts/index.js";

await styles("vendor/uplot.css");
const uPlot = await script("vendor/uplot.js", "uPlot");

const HEIGHT = 230;
const hours = new Intl.DateTimeFormat(LANGUAGE, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const dates = new Intl.DateTimeFormat(LANGUAGE, { month: "short", day: "numeric" });

/**
 * A drawing. `kind` is `stack` (bars on each other), `bars` (side by side in one place: those of the second series point
 * down) or `lines`. `series` have `{name, colour, values}`, lines also `dash` and `fill`. `times` are where bars begin,
 * and `end` is where the last one ends; with `names` in place of it, bars stand at names. `onHover` gets the place under
 * the pointer or null, `onDrawn` the canvas.
 */
export function Plot({ kind, times, end, names, series, colours, onHover, onDrawn, label, height = HEIGHT }) {
  const box = useRef();
  const plot = useRef(null);
  const called = useRef({});
  called.current = { onHover, onDrawn };
  const shown = JSON.stringify([kind, times, end, names, series, colours.panel]);
  const width = useWidth(box);
  useEffect(() => {
    if (!width) return undefined;
    const options = optionsOf({ kind, times, end, names, series, colours, width, height, called });
    plot.current = new uPlot(options, dataOf(kind, names ? names.map((_, index) => index) : times, series), box.current);
    called.current.onDrawn?.(plot.current.ctx.canvas);
    return () => plot.current.destroy();
  }, [shown, width]);
  return html`<div class="plot" ref=${box} role="img" aria-label=${label}></div>`;
}

function useWidth(box) {
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const measure = () => setWidth(Math.floor(box.current.clientWidth));
    const observer = new ResizeObserver(measure);
    observer.observe(box.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}

// Bars that stand on each other are drawn from the highest to the lowest sum, each from the ground.
function dataOf(kind, places, series) {
  if (kind === "bars") return [places, ...series.map((one, index) => one.values.map((value) => (value === null ? null : index ? -value : value)))];
  if (kind !== "stack") return [places, ...series.map((one) => one.values)];
  const sums = [];
  for (const one of series) {
    const below = sums.at(-1);
    sums.push(one.values.map((value, index) => {
      const ground = below?.[index] ?? null;
      return value === null && ground === null ? null : (value ?? 0) + (ground ?? 0);
    }));
  }
  return [places, ...sums.reverse()];
}

function optionsOf({ kind, times, end, names, series, colours, width, height, called }) {
  const order = kind === "stack" ? [...series].reverse() : series;
  const isBars = kind !== "lines";
  const align = names ? 0 : 1;
  const axis = { stroke: colours.faint, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    cursor: { points: { show: !isBars }, drag: { x: false, y: false }, y: false },
    padding: [10, 6, 0, 0],
    scales: {
      x: { time: !names, range: names ? [-0.6, names.length - 0.4] : [times[0], end] },
      y: { range: (_, low, high) => rangeOf(low, high) },
    },
    axes: [
      { ...axis, size: 30, grid: { show: false }, ...(names ? nameTicks(names, width) : { values: (_, ticks, __, ___, step) => ticks.map((tick) => (tick < end - 0.03 * (end - times[0]) ? timeText(tick, step) : "")), space: 56 }) },
      { ...axis, size: 46, values: (_, ticks) => ticks.map((tick) => numberText(Math.abs(tick))) },
    ],
    series: [
      {},
      ...order.map(({ colour, dash, fill }) => ({
        stroke: colour,
        width: isBars ? 0 : 1.6,
        dash,
        fill: isBars ? colour : fill,
        points: { show: false },
        spanGaps: false,
        ...(isBars && { paths: uPlot.paths.bars({ size: [0.82, 90, 1], align }) }),
      })),
    ],
    hooks: { setCursor: [(own) => called.current.onHover?.(own.cursor.idx ?? null)], draw: [(own) => called.current.onDrawn?.(own.ctx.canvas)] },
  };
}

function rangeOf(low, high) {
  const reach = Math.max(high ?? 0, 0);
  const depth = Math.min(low ?? 0, 0);
  const room = Math.max(reach - depth, 0.5) * 0.08;
  return [depth < 0 ? depth - room : 0, reach > 0 || depth === 0 ? Math.max(reach, depth === 0 ? 1 : 0) + room : 0];
}

function nameTicks(names, width) {
  const every = Math.ceil((names.length * 84) / Math.max(width - 50, 1));
  const shown = names.map((_, index) => index).filter((index) => index % every === 0);
  return { splits: () => shown, values: (_, ticks) => ticks.map((tick) => names[tick] ?? "") };
}

function timeText(seconds, step) {
  const time = new Date(seconds * 1000);
  const isDay = step >= 86_400 || (time.getHours() === 0 && time.getMinutes() === 0);
  return (isDay ? dates : hours).format(time);
}

const numberText = (value) => (value >= 10_000 ? `${+(value / 1000).toFixed(1)}k` : String(+value.toFixed(2)));
