// The heat map: where objects stood or went, drawn over the image of the camera.

import { address, path } from "../../api.js";
import { percent } from "../../format.js";
import { html, useEffect, useKept, useMemo, useRef, useState } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Empty, Panel } from "../basic.js";
import { Exports, Numbers } from "./chart.js";
import { heatColour, useColours } from "./colours.js";
import { saveCsv, savePng } from "./export.js";
import { Scale } from "./pattern.js";

const WIDTH = 960;
const PARTS = ["top", "middle", "bottom"].flatMap((row) => ["left", "centre", "right"].map((column) => `${row}_${column}`));

/** The heat map of one stream. `heat` is what the API answers, `size` that of the frames. */
export function HeatMap({ pipeline, stream, streams, heat, size, kind, onStream, onKind, file, hint }) {
  const [opacity, setOpacity] = useKept("analytics.opacity", 75);
  const [isEven, setEven] = useKept("analytics.even", true);
  const colours = useColours();
  const layer = useRef();
  const image = useRef();
  const [hasImage, setHasImage] = useState(false);
  const title = t("analytics.heat");
  const most = useMemo(() => Math.max(0, ...(heat?.values ?? [])), [heat]);
  useEffect(() => {
    if (layer.current && heat) draw(layer.current, heat, { most, isEven });
  }, [heat, most, isEven, hasImage]);
  useEffect(() => setHasImage(false), [stream]);
  const png = () => savePng(file, composed(image.current, layer.current, { size, opacity, hasImage }), { title: `${title}: ${stream}`, colours, scale: 1.5 });
  const csv = () => saveCsv(file, ["x", "y", heat.unit], heat.values.map((value, index) => [
    (index % heat.columns + 0.5) / heat.columns, (Math.floor(index / heat.columns) + 0.5) / heat.rows, value]));
  const choose = (name) => html`<button aria-pressed=${kind === name} onClick=${() => onKind(name)}>${t(`analytics.kind_${name}`)}</button>`;
  return html`<${Panel} title=${title} actions=${most > 0 && html`<${Exports} what=${title} onCsv=${csv} onPng=${png} />`}>
    <div class="bar">
      ${streams.length > 1 && html`<label><span class="hidden">${t("analytics.stream")}</span>
        <select value=${stream} onChange=${(event) => onStream(event.target.value)}>${streams.map((name) => html`<option value=${name}>${name}</option>`)}</select></label>`}
      <span class="group" role="group" aria-label=${t("analytics.kind")}>${choose("feet")}${choose("paths")}</span>
      <label class="slider">${t("analytics.opacity")}
        <input type="range" min="10" max="100" step="5" value=${opacity} onInput=${(event) => setOpacity(Number(event.target.value))} /></label>
      <label><input type="checkbox" checked=${isEven} onChange=${() => setEven(!isEven)} /> ${t("analytics.even")}</label>
    </div>
    ${most === 0 && heat ? html`<${Empty}>${hint}</${Empty}>` : html`
      <div class="heat" style=${{ aspectRatio: size.join(" / ") }}>
        <img ref=${image} src=${address(path(pipeline, "streams", stream, "image.jpg"), { width: WIDTH }).href} alt="" hidden=${!hasImage}
          onLoad=${() => setHasImage(true)} onError=${() => setHasImage(false)} />
        <canvas ref=${layer} role="img" aria-label=${t("analytics.heatOf", { stream })} style=${{ opacity: opacity / 100 }}></canvas>
      </div>
      <${Scale} low="0" high=${heat ? amount(most, kind) : ""} />
      <p class="faint small">${t(`analytics.about_${kind}`)}</p>
      ${heat && html`<${Numbers} title=${title} head=${[t("analytics.part"), t("analytics.share")]} rows=${shares(heat)} text=${percent} />`}`}
  </${Panel}>`;
}

const amount = (value, kind) => (kind === "paths" ? t("analytics.tracks", { count: value }) : value >= 90 ? t("analytics.minutes", { count: (value / 60).toFixed(1) }) : t("analytics.seconds", { count: value.toFixed(1) }));

// One pixel a cell: the browser makes it smooth. Little is transparent, so that the scene stays visible.
function draw(canvas, { columns, rows, values }, { most, isEven }) {
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const pixels = context.createImageData(columns, rows);
  values.forEach((value, index) => {
    if (!value) return;
    const share = isEven ? Math.log1p((99 * value) / most) / Math.log(100) : value / most;
    pixels.data.set([...heatColour(0.15 + 0.85 * share), 255 * Math.min(1, 0.35 + share)], 4 * index);
  });
  context.putImageData(pixels, 0, 0);
}

function composed(image, layer, { size, opacity, hasImage }) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: WIDTH, height: Math.round((WIDTH * size[1]) / size[0]) });
  const context = canvas.getContext("2d");
  context.fillStyle = "#05080b";
  context.fillRect(0, 0, canvas.width, canvas.height);
  if (hasImage) {
    context.filter = "grayscale(.7) brightness(.8)";
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    context.filter = "none";
  }
  context.globalAlpha = opacity / 100;
  context.imageSmoothingQuality = "high";
  context.filter = "blur(6px)";
  context.drawImage(layer, 0, 0, canvas.width, canvas.height);
  return canvas;
}

// For those who cannot see it: how much of it is in each ninth of the frame.
function shares({ columns, rows, values }) {
  const sums = PARTS.map(() => 0);
  values.forEach((value, index) => {
    const row = Math.floor((3 * Math.floor(index / columns)) / rows);
    sums[3 * row + Math.floor((3 * (index % columns)) / columns)] += value;
  });
  const whole = sums.reduce((sum, one) => sum + one, 0) || 1;
  return PARTS.map((name, index) => [t(`analytics.part_${name}`), sums[index] / whole]);
}
