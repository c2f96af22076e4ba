// A recording that shows an event: it plays from shortly before, frame by frame and at any speed, and can be kept.

import { address, path } from "../../api.js";
import { bytes } from "../../format.js";
import { html, useEffect, useKept, useRef, useState } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Badge } from "../basic.js";

const BEFORE_SECONDS = 2;
const SPEEDS = [0.25, 0.5, 1, 2, 4];
const USUAL_RATE = 25;

/** Where the file of a recording is. */
export const fileOf = (pipeline, recording) => address(path(pipeline, "recordings", recording.id, "file")).href;

/** Play the clip of an event; `clip` is `{recording, offset_seconds}`. */
export function Clip({ pipeline, clip }) {
  const { recording, offset_seconds: offset } = clip;
  const video = useRef();
  const [isRefused, setRefused] = useState(false);
  const [at, setAt] = useState(0);
  const [isPlaying, setPlaying] = useState(false);
  const [speed, setSpeed] = useKept("clipSpeed", 1);
  const rate = recording.images && recording.seconds ? recording.images / recording.seconds : USUAL_RATE;

  useEffect(() => {
    if (video.current) video.current.playbackRate = speed;
  }, [speed]);
  const begin = () => {
    video.current.playbackRate = speed;
    video.current.currentTime = Math.max(0, offset - BEFORE_SECONDS);
    video.current.play().catch(() => {}); // the browser wants a click first
  };
  const step = (frames) => {
    video.current.pause();
    video.current.currentTime = Math.max(0, video.current.currentTime + (frames + Math.sign(frames) * 0.01) / rate);
  };
  const toEvent = () => {
    video.current.pause();
    video.current.currentTime = offset + 0.5 / rate;
  };
  const press = (event) => {
    const act = { ",": () => step(-1), ".": () => step(1), e: toEvent }[event.key];
    if (!act || event.target.tagName === "SELECT") return;
    event.preventDefault();
    act();
  };
  const toggle = () => (video.current.paused ? video.current.play().catch(() => {}) : video.current.pause());
  if (isRefused) return html`<p class="empty">${t("events.cannotPlay")}</p>`;
  const seconds = Math.max(recording.seconds, 0.1);
  return html`<div class="clip" onKeyDown=${press}>
    <video ref=${video} src=${fileOf(pipeline, recording)} controls muted playsinline preload="auto" tabindex="0" aria-label=${t("events.clipLabel", { name: recording.stream })}
      onLoadedMetadata=${begin} onError=${() => setRefused(true)} onTimeUpdate=${(event) => setAt(event.target.currentTime)}
      onPlay=${() => setPlaying(true)} onPause=${() => setPlaying(false)}></video>
    <div class="progress" aria-hidden="true"><i style=${{ left: `${(100 * Math.min(at, seconds)) / seconds}%` }}></i><b style=${{ left: `${(100 * Math.min(offset, seconds)) / seconds}%` }}></b></div>
    <div class="bar clip-bar">
      <button onClick=${() => step(-1)} aria-label=${t("events.frameBack")} title=${t("events.frameBack")}>◂|</button>
      <button onClick=${toggle} aria-label=${t(isPlaying ? "events.pause" : "events.play")} title=${t(isPlaying ? "events.pause" : "events.play")}>${isPlaying ? "❚❚" : "▶"}</button>
      <button onClick=${() => step(1)} aria-label=${t("events.frameOn")} title=${t("events.frameOn")}>|▸</button>
      <button onClick=${toEvent}>${t("events.toEvent")}</button>
      <label class="small">${t("events.speed")} <select value=${String(speed)} onChange=${(event) => setSpeed(Number(event.target.value))}>
        ${SPEEDS.map((one) => html`<option value=${String(one)}>${one}×</option>`)}</select></label>
      ${recording.recording && html`<${Badge} kind="bad">${t("events.beingRecorded")}</${Badge}>`}
      <a class="download" href=${fileOf(pipeline, recording)} download=${recording.name}>${t("events.downloadClip", { size: bytes(recording.size_bytes) })}</a>
    </div>
  </div>`;
}
