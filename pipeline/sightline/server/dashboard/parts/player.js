// A player of one stream: live video, and what was found on each frame, drawn together into one canvas.

import { html, styles, useEffect, useRef, useState } from "../lib.js";
import { Playback } from "../live/playback.js";
import { t } from "../texts/index.js";

await styles("parts/player.css");

export const OVERLAYS = { boxes: true, labels: true, tracks: true, masks: true, zones: true, counts: true };
const SAID = new Set(["connecting", "waiting", "lost", "refused"]);

/**
 * Live video that fills its box and streams only while it can be seen. `overlays` says what is drawn, see `OVERLAYS`.
 * `onState` gets `{state, mode, fps, behindMs, size, drawn, counts, objects, frame}` when something of it changes, at most twice a
 * second: `state` is connecting, waiting (no frame comes), live, paused (out of sight), lost or refused; `mode` is
 * webcodecs, mse or jpeg; `drawn` says that overlays are in the image already; `counts` are the objects now by label,
 * `objects` these themselves, with `box` in pixels of a frame of the size `frame`.
 * Children lie exactly over the image: an SVG with `viewBox="0 0 1 1"` and `preserveAspectRatio="none"` has its
 * coordinates.
 */
export function Player({ pipeline, stream, overlays = OVERLAYS, onState, children }) {
  const box = useRef();
  const canvas = useRef();
  const layer = useRef();
  const playback = useRef();
  const told = useRef();
  const [state, setState] = useState("connecting");
  told.current = onState;

  useEffect(() => {
    const tell = (next) => {
      setState(next.state);
      told.current?.(next);
    };
    const running = new Playback({ pipeline, stream, canvas: canvas.current, layer: layer.current, overlays, tell });
    playback.current = running;
    const unwatch = whileSeen(box.current, (isSeen) => (isSeen ? running.start() : running.stop()));
    const resizes = new ResizeObserver(() => running.resize());
    resizes.observe(box.current);
    return () => {
      unwatch();
      resizes.disconnect();
      running.close();
    };
  }, [pipeline, stream]);

  useEffect(() => playback.current?.show(overlays), [JSON.stringify(overlays)]);

  return html`<div class="player" ref=${box} data-stream=${stream} data-state=${state}>
    <canvas ref=${canvas} role="img" aria-label=${t("player.label", { stream })}></canvas>
    <div class="player-layer" ref=${layer}>${children}</div>
    ${SAID.has(state) && html`<p class="player-note" role="status">${t(`player.${state}`)}</p>`}
  </div>`;
}

/** Call with whether an element can be seen: on the screen, in a page that is shown. Returns what ends that. */
function whileSeen(element, call) {
  let [isNear, wasSeen] = [false, false];
  const look = () => {
    const isSeen = isNear && !document.hidden;
    if (isSeen !== wasSeen) call(isSeen);
    wasSeen = isSeen;
  };
  const observer = new IntersectionObserver((entries) => {
    isNear = entries.at(-1).isIntersecting;
    look();
  });
  observer.observe(element);
  document.addEventListener("visibilitychange", look);
  return () => {
    observer.disconnect();
    document.removeEventListener("visibilitychange", look);
  };
}
