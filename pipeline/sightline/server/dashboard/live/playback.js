// One stream that is watched: connects, chooses how it is decoded, draws, and tries again when something fails.

import { path, socket } from "../api.js";
import { Decoders, failed } from "./decoders.js";
import { decoded, Knowledge } from "./knowledge.js";
import { Painter } from "./painter.js";

const CONFIRM_EVERY = 8;
const SILENT_MS = 3000;
const TELL_MS = 500;
const STEADY_MS = 5000;
const RETRY_MS = [300, 1000, 2000, 4000, 8000];
const REFUSED = 1008;

/** Plays a stream into a canvas between `start` and `stop`; `close` ends it. `tell` gets its state. */
export class Playback {
  constructor({ pipeline, stream, canvas, layer, overlays, tell }) {
    Object.assign(this, { to: path(pipeline, "streams", stream, "live"), tell });
    this.painter = new Painter(canvas, layer, overlays);
    this.state = "connecting";
    this.failures = 0;
    this.drawn = 0;
  }

  /** Connect, unless it is connected. */
  start() {
    if (this.isRunning) return;
    this.isRunning = true;
    this.failures = 0;
    this.toldAt = performance.now();
    this.timer = setInterval(() => this.look(), TELL_MS);
    this.change("connecting");
    this.connect();
  }

  /** Let the connection go; what was drawn last stays. */
  stop() {
    if (!this.isRunning) return;
    this.isRunning = false;
    clearInterval(this.timer);
    clearTimeout(this.retry);
    this.hangUp();
    this.change("paused");
  }

  close() {
    this.stop();
    this.tell = () => {};
    this.painter.close();
  }

  show(overlays) {
    this.painter.show(overlays);
  }

  resize() {
    this.painter.resize();
  }

  async connect() {
    const attempt = (this.attempt = Symbol("attempt"));
    const { mode, plays } = await Decoders.choose();
    if (attempt !== this.attempt || !this.isRunning) return;
    this.mode = mode;
    this.knowledge = new Knowledge();
    this.received = this.confirmed = 0;
    this.line = socket(this.to, { plays });
    this.line.onmessage = ({ data }) => this.receive(data);
    this.line.onclose = ({ code }) => this.lost(code === REFUSED ? "refused" : "lost");
    this.line.onopen = () => this.change("waiting");
  }

  receive(data) {
    try {
      if (typeof data === "string") this.begin(JSON.parse(data));
      else this.take(decoded(data));
    } catch (error) {
      this.giveUp(error);
    }
  }

  begin(format) {
    this.decoder?.close();
    this.format = format;
    this.decoder = Decoders.make(format, this.mode, {
      video: () => this.painter.video(),
      onImage: (image, at) => this.draw(image, at),
      onError: (error) => this.giveUp(error),
      onReady: () => this.confirm(),
    });
  }

  take(message) {
    this.received += 1;
    this.heardAt = performance.now();
    this.knowledge.note(message);
    if (message.size) this.decoder.decode(message);
    this.confirm();
  }

  /** Tell the server what has been handled, so that it sends more; not while the decoder is behind. */
  confirm() {
    if (this.received - this.confirmed < CONFIRM_EVERY || this.decoder?.isBehind) return;
    if (this.line?.readyState !== WebSocket.OPEN) return;
    this.line.send(String(this.received));
    this.confirmed = this.received;
  }

  draw(image, at) {
    const about = this.knowledge.at(at);
    this.painter.draw(image, about, this.format);
    this.drawn += 1;
    this.about = about;
    if (about) this.behindMs = this.knowledge.behindMs(about);
    if (this.state !== "live") {
      this.liveSince = performance.now();
      this.change("live");
    }
  }

  /** What this decoder cannot play is left to the next kind of decoder. */
  giveUp(error) {
    failed(this.decoder?.mode ?? this.mode, this.format, error);
    this.lost("lost");
  }

  lost(state) {
    this.hangUp();
    if (!this.isRunning) return;
    if (this.state === "live" && performance.now() - this.liveSince > STEADY_MS) this.failures = 0;
    const wait = RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)] * (0.75 + Math.random() / 2);
    this.failures += 1;
    if (this.failures > 1 || state === "refused") this.change(state);
    this.retry = setTimeout(() => this.connect(), wait);
  }

  hangUp() {
    this.attempt = null;
    if (this.line) {
      this.line.onclose = this.line.onmessage = this.line.onopen = null;
      this.line.close();
    }
    this.line = null;
    this.decoder?.close();
    this.decoder = null;
  }

  /** Tell the rate, twice a second; and that nothing comes any more. */
  look() {
    const now = performance.now();
    if (this.state === "live" && now - this.heardAt > SILENT_MS) this.state = "waiting";
    this.fps = (1000 * this.drawn) / Math.max(now - this.toldAt, 1);
    this.drawn = 0;
    this.toldAt = now;
    this.report();
  }

  change(state) {
    if (state === this.state && state !== "connecting") return;
    this.state = state;
    this.report();
  }

  report() {
    this.tell({
      state: this.state,
      mode: this.decoder?.mode ?? this.mode,
      fps: this.state === "live" ? this.fps : 0,
      behindMs: this.state === "live" ? this.behindMs : undefined,
      size: this.format && [this.format.width, this.format.height],
      drawn: this.format?.drawn ?? false,
      counts: this.about?.counts ?? {},
      objects: this.about?.objects ?? [],
      frame: this.about?.size,
    });
  }
}
