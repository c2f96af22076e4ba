// Draws an image and its overlays into a canvas, as sharp as the screen is, and lays a layer exactly over the image.

import { drawOverlay, Trails } from "./overlay.js";

const GROUND = "#05080b";
const rect = ({ left, top, width, height }) => [left, top, width, height];

export class Painter {
  constructor(canvas, layer, overlays) {
    Object.assign(this, { canvas, layer, overlays });
    this.context = canvas.getContext("2d", { alpha: false });
    this.trails = new Trails();
    this.size = [16, 9];
    this.resize();
  }

  show(overlays) {
    this.overlays = overlays;
  }

  /** A video element below the canvas, for decoders that need one. */
  video() {
    if (!this.element) {
      this.element = Object.assign(document.createElement("video"), { muted: true, playsInline: true, autoplay: true });
      this.element.tabIndex = -1;
      this.element.setAttribute("aria-hidden", "true");
      this.canvas.before(this.element);
    }
    return this.element;
  }

  /** Fit the canvas to its box, and the layer to the image in it. */
  resize() {
    const scale = window.devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    const [width, height] = [Math.round(clientWidth * scale), Math.round(clientHeight * scale)];
    if (!width || !height) return;
    const before = this.canvas.width !== width || this.canvas.height !== height ? this.copy() : null;
    if (before) Object.assign(this.canvas, { width, height });
    const fit = Math.min(width / this.size[0], height / this.size[1]);
    const [w, h] = [this.size[0] * fit, this.size[1] * fit];
    this.place = { left: Math.round((width - w) / 2), top: Math.round((height - h) / 2), width: Math.round(w), height: Math.round(h), scale };
    const css = (value) => `${value / scale}px`;
    Object.assign(this.layer.style, {
      left: css(this.place.left),
      top: css(this.place.top),
      width: css(this.place.width),
      height: css(this.place.height),
    });
    if (before) {
      this.clear();
      this.context.drawImage(before.image, before.left, before.top, before.width, before.height, ...rect(this.place));
    }
  }

  /** What the canvas shows, to be drawn again where its size changes, which clears it. */
  copy() {
    if (!this.last) return { image: document.createElement("canvas"), left: 0, top: 0, width: 1, height: 1 };
    const image = Object.assign(document.createElement("canvas"), { width: this.canvas.width, height: this.canvas.height });
    image.getContext("2d").drawImage(this.canvas, 0, 0);
    return { image, ...this.place };
  }

  clear() {
    this.context.fillStyle = GROUND;
    this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
  }

  draw(image, about, format) {
    const [width, height] = [format.width, format.height];
    if (this.size[0] !== width || this.size[1] !== height) {
      this.size = [width, height];
      this.resize();
      this.clear();
    }
    if (about) this.trails.add(about);
    this.last = { about, format };
    this.context.drawImage(image, ...rect(this.place));
    this.overlay();
  }

  overlay() {
    const { about, format } = this.last;
    if (about && !format.drawn) drawOverlay(this.context, about, this.place, this.overlays, this.trails);
  }

  close() {
    this.element?.remove();
  }
}
