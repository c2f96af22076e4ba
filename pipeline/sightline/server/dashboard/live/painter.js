// Draws an image and its overlays into a canvas, as sharp as the screen is, and lays a layer exactly over the image.

import { drawOverlay, Trails } from "./overlay.js";

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
    if (this.last) this.redraw();
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
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      this.isDirty = true;
    }
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
    if (this.isDirty && this.last) this.redraw();
    this.isDirty = false;
  }

  draw(image, about, format) {
    const [width, height] = [format.width, format.height];
    if (this.size[0] !== width || this.size[1] !== height) {
      this.size = [width, height];
      this.isDirty = false;
      this.resize();
      this.context.fillStyle = "#05080b";
      this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    }
    if (about) this.trails.add(about);
    this.last = { about, format };
    const { left, top, width: w, height: h } = this.place;
    this.context.drawImage(image, left, top, w, h);
    this.overlay();
  }

  overlay() {
    const { about, format } = this.last;
    if (about && !format.drawn) drawOverlay(this.context, about, this.place, this.overlays, this.trails);
  }

  /** Draw what can be drawn again without the image: after a change of size the next frame brings it. */
  redraw() {
    if (this.isDirty) {
      this.context.fillStyle = "#05080b";
      this.context.fillRect(0, 0, this.canvas.width, this.canvas.height);
    }
  }

  close() {
    this.element?.remove();
  }
}
