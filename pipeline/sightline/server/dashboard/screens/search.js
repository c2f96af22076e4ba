// The tracks of `search_index`: found in words, by one that looks alike, or by an image, with when and where each was.

import { address, ask, path, useRead } from "../api.js";
import { dateAndTime } from "../format.js";
import { html, styles, useEffect, useKept, useRef, useState } from "../lib.js";
import { Dialog, Empty, ErrorBox, Loading } from "../parts/basic.js";
import { Clip } from "../parts/events/clip.js";
import { textOf } from "../parts/records.js";
import { go, href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/event.css");
await styles("screens/search.css");

const PAGE = 24;
const MOST = 192;
const LONGEST_TEXT = 300;
const MOST_IMAGE_BYTES = 1 << 20;
const PATIENCE_MS = 60_000;
const NEIGHBOURS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 };

export default function Search({ pipeline, rest: [id], query }) {
  const [image, setImage] = useState(null);
  const [limit, setLimit] = useState(PAGE);
  const to = (changed, track) => href(pipeline, "search", track ? [track] : [], { ...query, ...changed });
  const found = useFound(pipeline, query, image, limit);
  const change = (changed) => {
    setLimit(PAGE);
    setImage(null);
    go(to({ like: "", ...changed }));
  };
  if (found.error?.status === 404 && !found.data) {
    return html`<h1 class="title">${t("search.screen")}</h1><${Empty}><b>${t("search.notFound")}.</b> ${t("search.add")}</${Empty}>`;
  }
  return html`<h1 class="hidden">${t("search.screen")}</h1>
    <${Bar} key=${query.text} pipeline=${pipeline} query=${query} image=${image} onChange=${change} onImage=${(file) => { setLimit(PAGE); setImage(file); }} />
    <${ErrorBox} error=${found.error} />
    ${found.data ? html`<${Found} data=${found.data} query=${query} image=${image} isLoading=${found.isLoading} link=${(track) => to({}, String(track.id))}
      onAlike=${(track) => { setImage(null); setLimit(PAGE); go(href(pipeline, "search", [], { like: String(track.id) })); }}
      onMore=${() => setLimit(limit + PAGE)} canMore=${found.data.tracks.length >= limit && limit < MOST} />` : !found.error && html`<${Loading} />`}
    ${id && html`<${Details} key=${id} pipeline=${pipeline} id=${id} onClose=${() => go(to({}))} />`}`;
}

// What is found: `{data, error, isLoading}`. What was found before stays until the next answer.
function useFound(pipeline, { text, stream, label, like }, image, limit) {
  const [state, setState] = useState({ data: undefined, error: null, isLoading: true });
  useEffect(() => {
    const asking = new AbortController();
    const asked = { text, stream, label, limit, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone };
    const search = address(path(pipeline, "search"), image ? asked : { ...asked, like });
    const options = { signal: asking.signal, patienceMs: PATIENCE_MS, ...(image && { method: "POST", body: image, type: image.type }) };
    setState((known) => ({ ...known, isLoading: true }));
    ask(search, options).then((response) => response.json()).then(
      (data) => setState({ data, error: null, isLoading: false }),
      (error) => asking.signal.aborted || setState((known) => ({ ...known, error, isLoading: false })),
    );
    return () => asking.abort();
  }, [pipeline, text, stream, label, like, image, limit]);
  return state;
}

function Bar({ pipeline, query, image, onChange, onImage }) {
  const [text, setText] = useState(query.text ?? "");
  const [error, setError] = useState(null);
  const mayBring = useMay("operator");
  const box = useRef();
  const [hasKeys] = useKept("shortcuts", true);
  const { data: streams } = useRead(path(pipeline, "streams"));
  const { data: values } = useRead(path(pipeline, "history", "records", "values"));
  useEffect(() => {
    const press = (event) => {
      if (!hasKeys || event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey || event.target.closest("input, select, textarea, dialog")) return;
      event.preventDefault();
      box.current.focus();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, [hasKeys]);
  const bring = (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    setError(file.size > MOST_IMAGE_BYTES ? { message: t("search.tooLarge") } : null);
    if (file.size <= MOST_IMAGE_BYTES) onImage(file);
  };
  const isAny = image || ["text", "stream", "label", "like"].some((name) => query[name]);
  return html`<form class="bar search-bar" role="search" onSubmit=${(event) => { event.preventDefault(); onChange({ text: text.trim() }); }}>
      <input ref=${box} type="search" name="text" aria-label=${t("search.box")} maxlength=${LONGEST_TEXT} value=${text} placeholder=${t("search.hint")} onInput=${(event) => setText(event.target.value)} />
      <button class="main">${t("search.find")}</button>
      <${Choice} name="stream" query=${query} all="search.allStreams" values=${streams?.map((one) => one.name)} onChange=${onChange} />
      <${Choice} name="label" query=${query} all="search.allLabels" values=${values?.label} onChange=${onChange} />
      ${mayBring && html`<label class="file"><input type="file" accept="image/jpeg,image/png,image/webp,image/bmp" onChange=${bring} /><span>${t("search.choose")}</span></label>`}
      ${isAny && html`<button type="button" class="plain" onClick=${() => onChange({ text: "", stream: "", label: "" })}>${t("search.clear")}</button>`}
    </form><${ErrorBox} error=${error} />`;
}

function Choice({ name, query, all, values = [], onChange }) {
  const chosen = query[name] ?? "";
  const known = chosen && !values.includes(chosen) ? [...values, chosen] : values;
  return html`<label><span class="hidden">${t(`search.${name}`)}</span><select name=${name} value=${chosen} onChange=${(event) => onChange({ [name]: event.target.value, like: query.like })}>
    <option value="">${t(all)}</option>${known.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;
}

function Found({ data, query, image, isLoading, link, onAlike, onMore, canMore }) {
  const { tracks, understood } = data;
  const list = useRef();
  const isScored = tracks.some((one) => one.score !== null);
  const told = image ? t("search.alikeImage", { name: image.name }) : query.like ? t("search.alikeTrack")
    : query.text ? t("search.understood", { text: understood.text }) : t("search.everything");
  const press = (event) => {
    const links = [...list.current.querySelectorAll("a.opens")];
    const next = links[links.indexOf(event.target) + NEIGHBOURS[event.key]];
    if (!event.target.matches("a.opens") || !next) return;
    event.preventDefault();
    next.focus();
  };
  return html`<div class="search-told" aria-live="polite" aria-busy=${isLoading}>
      <p id="told">${told} · <span class="faint">${t("search.ofFitting", { shown: tracks.length, fitting: data.fitting })}</span></p>
      ${isScored && html`<p class="faint small">${t("search.limits")}</p>`}
      ${data.without_time > 0 && html`<p class="faint small">${t("search.withoutTime", { count: data.without_time })}</p>`}
      ${data.images_withheld && html`<p class="warn small">${t("search.withheld")}</p>`}
    </div>
    ${tracks.length === 0 && html`<${Empty}>${t("search.none")}</${Empty}>`}
    <ul class="tracks" ref=${list} onKeyDown=${press}>${tracks.map((track) => html`<li class="track" key=${track.id} data-track=${track.id}>
      <a class="opens" href=${link(track)}>
        <span class="shown"><${TrackImage} track=${track} /></span>
        <span class="said">${track.label} <span class="faint">${attributesOf(track)}</span></span>
        <span class="small"><b>${track.stream}</b> · ${timeOf(track)}</span>
        ${track.score !== null && html`<span class="small faint">${t("search.score")} ${track.score.toFixed(2)}</span>`}
      </a>
      <button class="plain small" onClick=${() => onAlike(track)} aria-label=${`${t("search.alike")}: ${t("search.image", track)}`}>${t("search.alike")}</button></li>`)}</ul>
    ${canMore && html`<div class="bar"><button onClick=${onMore}>${t("search.more")}</button></div>`}`;
}

// Where the image is, as the API names it.
function TrackImage({ track }) {
  const [failed, setFailed] = useState(false);
  if (!track.image || failed) return html`<span aria-hidden="true">${track.label}</span>`;
  return html`<img src=${new URL(track.image.replace(/^\//, ""), document.baseURI).href} alt="" loading="lazy" decoding="async" onError=${() => setFailed(true)} />`;
}

const attributesOf = ({ attributes }) => Object.values(attributes).join(", ");
const timeOf = (track) => (track.start ? dateAndTime(track.start) : t("search.seconds", { start: clockOf(track.start_seconds), end: clockOf(track.end_seconds) }));
const clockOf = (seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, "0")}`;

// A track with what else shows it: the recording from where it begins, and the events that are about it.
function Details({ pipeline, id, onClose }) {
  const { data, error } = useRead(path(pipeline, "search", "tracks", id));
  if (!data) return html`<${Dialog} title=${t("search.moment")} onClose=${onClose} wide>${error ? html`<${ErrorBox} error=${error} />` : html`<${Loading} />`}</${Dialog}>`;
  const { track, clips, events } = data;
  const facts = [["time", timeOf(track)], ["camera", track.stream], ["track", track.track_id], ["attributes", attributesOf(track)]];
  return html`<${Dialog} title=${t("search.image", track)} onClose=${onClose} wide><div class="track-details" data-track=${id}>
    <div>${clips.length > 0 ? html`<h3>${t("search.clip")}</h3><${Clip} key=${clips[0].recording.id} pipeline=${pipeline} clip=${clips[0]} />` : html`<${TrackImage} track=${track} /><p class="faint small">${t("search.noClip")}</p>`}</div>
    <div>${clips.length > 0 && html`<${TrackImage} track=${track} />`}
      <dl class="event-facts">${facts.filter(([, value]) => value !== "").map(([name, value]) => html`<div key=${name}><dt>${t(`search.${name}`)}</dt><dd>${value}</dd></div>`)}</dl>
      ${events.length > 0 ? html`<ul>${events.map((one) => html`<li key=${one.id}><a href=${href(pipeline, "events", [one.id])}>${textOf(one)}</a></li>`)}</ul>` : html`<p class="faint small">${t("search.noEvent")}</p>`}
      <p class="small"><a href=${href(pipeline, "camera", [track.stream])}>${t("search.toCamera")}</a></p>
    </div></div></${Dialog}>`;
}
