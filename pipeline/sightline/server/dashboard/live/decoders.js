// Decoders of live video: WebCodecs where pages may use it (HTTPS, this machine), MSE elsewhere, JPEG where no codec plays.
// Each takes messages and gives images with their time in 1/90000 s. What fails once for a codec is not tried again.

const TICKS = 90_000;
const BEHIND = 12; // images that a decoder may have before it counts as behind
const CODECS = { h264: "avc1.42E01E", h265: "hvc1.1.6.L93.B0" };
const MODES = ["webcodecs", "mse", "jpeg"];
const failures = new Set();

const micros = (ticks) => Math.round((ticks * 1e6) / TICKS);
const bytes = (base64) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
const typeOf = (codec) => `video/mp4; codecs="${codec}"`;

/** Note that a kind of decoder did not play a format, so that the next kind is chosen. */
export function failed(mode, format, error) {
  console.warn(`live video by ${mode} failed: ${error?.message ?? error}`);
  if (!format || mode === "jpeg") return;
  failures.add(`${mode} ${format.codec?.slice(0, 4)}`);
}

async function plays(mode, codec) {
  if (failures.has(`${mode} ${codec.slice(0, 4)}`)) return false;
  if (mode === "mse") return Boolean(window.MediaSource?.isTypeSupported(typeOf(codec)));
  if (!window.VideoDecoder) return false;
  const answer = await VideoDecoder.isConfigSupported({ codec, optimizeForLatency: true }).catch(() => null);
  return Boolean(answer?.supported);
}

export const Decoders = {
  /** How to decode, and what to ask the server for: `{mode, plays}`. */
  async choose() {
    for (const mode of MODES.slice(0, 2)) {
      const found = [];
      for (const [name, codec] of Object.entries(CODECS)) if (await plays(mode, codec)) found.push(name);
      if (found.includes("h264")) return { mode, plays: found };
    }
    return { mode: "jpeg", plays: [] };
  },

  make(format, mode, calls) {
    if (format.way === "jpeg") return new Stills(calls);
    return mode === "webcodecs" ? new WebCodecs(format, calls) : new MediaSourceDecoder(format, calls);
  },
};

class WebCodecs {
  constructor(format, { onImage, onError, onReady }) {
    this.mode = "webcodecs";
    this.newest = null;
    this.times = new Map();
    this.onImage = onImage;
    this.decoder = new VideoDecoder({ output: (frame) => this.put(frame), error: onError });
    this.decoder.ondequeue = onReady;
    this.decoder.configure({
      codec: format.codec,
      codedWidth: format.width,
      codedHeight: format.height,
      description: bytes(format.configuration),
      optimizeForLatency: true,
    });
  }

  get isBehind() {
    return this.decoder.decodeQueueSize > BEHIND;
  }

  decode({ isKey, ticks, data }) {
    const timestamp = micros(ticks);
    this.times.set(timestamp, ticks);
    this.decoder.decode(new EncodedVideoChunk({ type: isKey ? "key" : "delta", timestamp, data }));
  }

  /** Show the newest image with the next frame of the screen. */
  put(frame) {
    this.newest?.close();
    if (!this.newest) requestAnimationFrame(() => this.draw());
    this.newest = frame;
  }

  draw() {
    const frame = this.newest;
    this.newest = null;
    if (!frame) return;
    const ticks = this.times.get(frame.timestamp) ?? (frame.timestamp * TICKS) / 1e6;
    for (const old of this.times.keys()) {
      if (old >= frame.timestamp && this.times.size < 1000) break;
      this.times.delete(old);
    }
    this.onImage(frame, ticks);
    frame.close();
  }

  close() {
    if (this.decoder.state !== "closed") this.decoder.close();
    this.newest?.close();
    this.newest = null;
  }
}

const NEAREST_SECONDS = 0.07; // how far playback stays behind the newest image, while that lasts
const FARTHEST_SECONDS = 0.5;
const CALM_MS = 2_000; // without a stall, after which it goes nearer again; one while it begins is none
const FAR_SECONDS = 1.0; // from here on it jumps instead of hurrying
const KEEP_SECONDS = 6;

class MediaSourceDecoder {
  constructor(format, { video, onImage, onError, onReady }) {
    this.mode = "mse";
    Object.assign(this, { format, video: video(), onImage, onError, onReady, waiting: [bytes(format.start)] });
    this.near = NEAREST_SECONDS;
    this.changedAt = performance.now();
    this.video.onwaiting = () => this.stalled();
    const source = new MediaSource();
    this.url = URL.createObjectURL(source);
    source.onsourceopen = () => {
      try {
        this.buffer = source.addSourceBuffer(typeOf(format.codec));
      } catch (error) {
        onError(error);
        return;
      }
      this.buffer.onupdateend = () => this.appended();
      this.append();
    };
    this.video.onerror = () => onError(this.video.error);
    this.video.src = this.url;
    this.ask();
  }

  get isBehind() {
    return this.waiting.length > BEHIND;
  }

  ask() {
    this.asked = this.video.requestVideoFrameCallback((_, { mediaTime }) => {
      this.show(mediaTime);
      this.ask();
    });
  }

  /** Show the image that the element has by now: it may have gone on since `mediaTime`. */
  show(mediaTime) {
    let frame = null;
    try {
      frame = new VideoFrame(this.video);
    } catch {
      // the browser has no such thing, or the element is between two images
    }
    this.onImage(frame ?? this.video, frame ? (frame.timestamp * TICKS) / 1e6 : mediaTime * TICKS);
    frame?.close();
  }

  decode({ payload }) {
    this.waiting.push(payload);
    this.append();
  }

  append() {
    if (!this.buffer || this.buffer.updating || !this.waiting.length) return;
    try {
      this.buffer.appendBuffer(this.waiting.shift());
    } catch (error) {
      this.onError(error);
    }
  }

  appended() {
    const { video, buffer } = this;
    if (!this.url) return;
    if (buffer.buffered.length) {
      this.chase(buffer.buffered.end(buffer.buffered.length - 1) - this.format.declared_seconds);
      const old = video.currentTime - KEEP_SECONDS;
      if (!buffer.updating && old - buffer.buffered.start(0) > KEEP_SECONDS) {
        buffer.remove(buffer.buffered.start(0), old);
        return;
      }
    }
    this.onReady();
    this.append();
  }

  /** Keep playback a little behind the newest image: jump when it is far off, else hurry or linger. */
  chase(newest) {
    const { near } = this;
    const behind = newest - this.video.currentTime;
    if (performance.now() - this.changedAt > CALM_MS) this.calm();
    if (behind > FAR_SECONDS || behind < -this.format.declared_seconds / 2) {
      this.video.currentTime = Math.max(newest - near, 0);
    } else {
      this.video.playbackRate = behind > 2 * near ? 1.1 : behind < near / 2 ? 0.9 : 1;
    }
    if (this.video.paused) this.video.play().catch(() => {}); // a browser that does not want to
  }

  /** Images come later than expected: stay farther behind. */
  stalled() {
    if (!this.hasShown || performance.now() - this.changedAt < CALM_MS / 4) return;
    this.changedAt = performance.now();
    this.near = Math.min(this.near * 1.3, FARTHEST_SECONDS);
  }

  calm() {
    this.changedAt = performance.now();
    this.hasShown = true;
    this.near = Math.max(this.near / 1.2, NEAREST_SECONDS);
  }

  close() {
    if (!this.url) return;
    this.video.onwaiting = null;
    this.video.cancelVideoFrameCallback(this.asked);
    this.video.onerror = null;
    this.video.removeAttribute("src");
    this.video.load();
    URL.revokeObjectURL(this.url);
    this.url = null;
  }
}

class Stills {
  constructor({ onImage, onError, onReady }) {
    Object.assign(this, { mode: "jpeg", waiting: 0, onImage, onError, onReady });
  }

  get isBehind() {
    return this.waiting > 1;
  }

  async decode({ ticks, payload }) {
    this.waiting += 1;
    try {
      const image = await createImageBitmap(new Blob([payload], { type: "image/jpeg" }));
      if (!this.isClosed) this.onImage(image, ticks);
      image.close();
    } catch (error) {
      if (!this.isClosed) this.onError(error);
    } finally {
      this.waiting -= 1;
      if (!this.isClosed) this.onReady();
    }
  }

  close() {
    this.isClosed = true;
  }
}
