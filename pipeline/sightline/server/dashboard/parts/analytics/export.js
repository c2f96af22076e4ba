// What a chart shows, as a file: its table as CSV, or its drawing as PNG.

const FORMULA = /^[=+\-@\t\r]/;

/** Save rows of cells as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front. */
export function saveCsv(name, head, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value === "number") return String(Math.round(value * 1e4) / 1e4);
    return `"${(FORMULA.test(value) ? `'${value}` : value).replaceAll('"', '""')}"`;
  };
  const text = [head, ...rows].map((cells) => cells.map(cell).join(",")).join("\r\n");
  save(new Blob([`${text}\r\n`], { type: "text/csv" }), `${name}.csv`);
}

/**
 * Save a drawing as PNG, with a title above and what colours mean below: `legend` has `{name, colour}`. `drawing` is a
 * canvas; the rest is in CSS pixels times `scale`.
 */
export function savePng(name, drawing, { title, legend = [], colours, scale = window.devicePixelRatio || 1 }) {
  const unit = (value) => Math.round(value * scale);
  const paper = document.createElement("canvas");
  const context = paper.getContext("2d");
  const font = (size, weight = 400) => `${weight} ${unit(size)}px system-ui, sans-serif`;
  const width = drawing.width + unit(32);
  context.font = font(13);
  const places = legendPlaces(context, legend, { width: width - unit(32), unit });
  paper.width = width;
  paper.height = unit(48) + drawing.height + unit(22 * (places.rows + 1));
  context.fillStyle = colours.panel;
  context.fillRect(0, 0, paper.width, paper.height);
  context.fillStyle = colours.text;
  context.font = font(15, 600);
  context.fillText(title, unit(16), unit(28), width - unit(32));
  context.drawImage(drawing, unit(16), unit(44));
  context.font = font(13);
  for (const { name: text, colour, x, row } of places.items) {
    const y = unit(48) + drawing.height + unit(22 * row + 16);
    context.fillStyle = colour;
    context.fillRect(unit(16) + x, y - unit(10), unit(11), unit(11));
    context.fillStyle = colours.text;
    context.fillText(text, unit(32) + x, y);
  }
  // At once, not by `toBlob`: browsers refuse what is saved long after a click.
  const bytes = Uint8Array.from(atob(paper.toDataURL("image/png").split(",")[1]), (one) => one.charCodeAt(0));
  save(new Blob([bytes], { type: "image/png" }), `${name}.png`);
}

function legendPlaces(context, legend, { width, unit }) {
  let x = 0;
  let rows = legend.length ? 1 : 0;
  const items = legend.map((one) => {
    const own = context.measureText(one.name).width + unit(34);
    if (x > 0 && x + own > width) [x, rows] = [0, rows + 1];
    const item = { ...one, x, row: rows - 1 };
    x += own;
    return item;
  });
  return { items, rows };
}

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
