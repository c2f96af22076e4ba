// What is known of frames: read from messages, kept for the moment at which the frame is shown.

const KEPT_TICKS = 4 * 90_000;
const MOST_KEPT = 512;
const NEAR_TICKS = 450; // 5 ms
const text = new TextDecoder();

/** Read a binary message: `{isKey, ticks, about, payload, data, size}`; see docs/guide/live.md. */
export function decoded(buffer) {
  const view = new DataView(buffer);
  const [length, flags, ticks, size] = [view.getUint32(0), view.getUint32(4), view.getFloat64(8), view.getUint32(16)];
  const about = length ? JSON.parse(text.decode(new Uint8Array(buffer, 20, length))) : null;
  const payload = new Uint8Array(buffer, 20 + length);
  return { isKey: Boolean(flags & 1), ticks, about, payload, data: payload.subarray(payload.length - size), size };
}

/** What was found on the newest frames, by time in 1/90000 s. */
export class Knowledge {
  constructor() {
    this.known = new Map();
    this.shapes = [];
    this.offsetMs = Infinity;
  }

  note({ ticks, about }) {
    if (!about) return;
    this.shapes = about.shapes ?? this.shapes;
    const found = about.found;
    const objects = found.objects ?? [];
    const counts = {};
    for (const one of objects) if (!(one.parent >= 0)) counts[one.label] = (counts[one.label] ?? 0) + 1;
    this.offsetMs = Math.min(this.offsetMs + 0.01, Date.now() - found.now);
    this.known.set(ticks, { ...found, objects, ticks, counts, shapes: this.shapes });
    for (const old of this.known.keys()) {
      if (Math.abs(ticks - old) < KEPT_TICKS && this.known.size < MOST_KEPT) break;
      this.known.delete(old);
    }
  }

  /** What is known of the frame of that time, else of the last one before it; undefined when nothing is. */
  at(ticks) {
    const exact = this.known.get(Math.round(ticks));
    if (exact) return exact;
    let best;
    for (const one of this.known.values()) {
      if (one.ticks <= ticks + NEAR_TICKS && (!best || one.ticks > best.ticks)) best = one;
    }
    return best;
  }

  /** How long ago a frame arrived at the server, by its clock. */
  behindMs(about) {
    return Math.max(0, Date.now() - this.offsetMs - about.at);
  }
}
