"use strict";

const STATUS_EVERY_MS = 1000;
const IMAGE_EVERY_MS = 500;
const PATIENCE_MS = 5000;
const STATES = { auth_failed: "refused" };

const at = (id) => document.getElementById(id);
const cards = new Map();
const seen = new WeakSet();
let steps = new Map();
let hasImages = false;

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) entry.isIntersecting ? seen.add(entry.target) : seen.delete(entry.target);
});

const number = (value) => (value >= 1e6 ? `${(value / 1e6).toFixed(2)} M` : value.toLocaleString("en-US"));
const rate = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(1));
const milliseconds = (value) => (value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${value.toFixed(0)} ms`);

function duration(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

function makeCard(name) {
  const card = at("card").content.firstElementChild.cloneNode(true);
  card.querySelector("h3").textContent = name;
  const parts = { card, name, state: "", screen: card.querySelector(".screen"), badge: card.querySelector(".badge"), isLoading: false };
  watcher.observe(card);
  return parts;
}

function showStream(parts, stream) {
  const { card, badge, screen } = parts;
  const state = stream.state === "live" && stream.overloaded ? "overloaded" : stream.state;
  parts.state = stream.state;
  badge.className = `badge ${state}`;
  badge.textContent = STATES[state] || state;
  screen.classList.toggle("old", stream.state !== "live");
  const word = hasImages ? (stream.state === "live" ? "waiting for an image" : STATES[state] || state) : "no images";
  card.querySelector(".nothing").textContent = word;
  showCause(card.querySelector(".cause"), stream);
  showNumbers(card, stream);
}

function showCause(place, stream) {
  const text = stream.error || stream.cause;
  const next = stream.next_attempt_seconds;
  place.hidden = !text;
  place.textContent = text ? text + (next > 1 ? `; next attempt in ${Math.ceil(next)} s` : "") : "";
}

function showNumbers(card, stream) {
  const put = (of, text, kind = "") => {
    const place = card.querySelector(`[data-of=${of}]`);
    place.textContent = text;
    place.className = kind;
  };
  const dropped = Object.values(stream.dropped).reduce((sum, count) => sum + count, 0);
  const reasons = Object.entries(stream.dropped).map(([reason, count]) => `${reason} ${number(count)}`);
  put("rate", rate(stream.rates.finished));
  put("drops", rate(stream.rates.dropped), stream.rates.dropped > 0 ? "warn" : "");
  put("latency", milliseconds(stream.latency_ms.p95));
  put("processed", number(stream.processed));
  put("dropped", number(dropped));
  put("reconnects", number(stream.reconnects));
  const facts = [
    stream.size && stream.size.join("×"),
    stream.codec,
    stream.state_seconds !== null && `${STATES[stream.state] || stream.state} for ${duration(stream.state_seconds)}`,
    stream.damaged && `${number(stream.damaged)} damaged`,
    stream.stalls && `${stream.stalls} stalls`,
    reasons.length && `dropped: ${reasons.join(", ")}`,
  ];
  card.querySelector(".small").textContent = facts.filter(Boolean).join(" · ");
}

function showStreams(streams) {
  const names = new Set(streams.map((stream) => stream.name));
  for (const [name, parts] of cards) {
    if (!names.has(name)) {
      watcher.unobserve(parts.card);
      parts.card.remove();
      cards.delete(name);
    }
  }
  for (const stream of streams) {
    if (!cards.has(stream.name)) {
      const parts = makeCard(stream.name);
      cards.set(stream.name, parts);
      at("streams").append(parts.card);
    }
    showStream(cards.get(stream.name), stream);
  }
}

function showRows(id, rows) {
  const body = at(id).tBodies[0];
  body.replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement("tr");
      row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
      return row;
    })
  );
}

function showSteps(status) {
  const now = new Map(status.elements.map((step) => [step.id, { ...step, time: status.time }]));
  const rows = status.elements.map((step) => {
    const before = steps.get(step.id) || { frames: step.frames, busy_seconds: step.busy_seconds, time: status.time - 1 };
    const seconds = Math.max(status.time - before.time, 0.001);
    const busy = (100 * (step.busy_seconds - before.busy_seconds)) / seconds;
    return [
      step.id,
      rate(Math.max(0, step.frames - before.frames) / seconds),
      `${Math.max(0, busy).toFixed(0)} %`,
      milliseconds(step.latency_ms_p95),
      step.engine_runs === undefined ? "" : number(step.engine_runs),
      step.engine_saved_runs === undefined ? "" : number(step.engine_saved_runs),
    ];
  });
  steps = now;
  showRows("steps", rows);
}

function showDeliveries(deliveries) {
  at("deliveries-panel").hidden = !deliveries.length;
  showRows("deliveries", deliveries.map((one) => [
    one.id,
    one.state,
    number(one.delivered),
    number(one.waiting),
    one.waiting ? duration(one.oldest_seconds) : "",
    number(one.refused),
    number(Object.values(one.dropped).reduce((sum, count) => sum + count, 0)),
    [one.address, one.error].filter(Boolean).join(": "),
  ]));
}

function showMessages(messages) {
  const line = (message) => {
    const item = document.createElement("li");
    const when = Object.assign(document.createElement("time"), { textContent: new Date(message.time * 1000).toLocaleTimeString() });
    const where = [message.stream, message.element].filter(Boolean).join(" ");
    const times = message.count > 1 ? ` (${message.count} times)` : "";
    item.append(when, Object.assign(document.createElement("span"), { textContent: (where ? `${where}: ` : "") + message.text + times }));
    return item;
  };
  at("messages").replaceChildren(...messages.map(line));
}

function showSummary(status) {
  const live = status.streams.filter((stream) => stream.state === "live").length;
  const summary = at("summary");
  document.title = `${status.pipeline || "Sightline"}${status.ready ? "" : " !"}`;
  at("pipeline").textContent = status.pipeline || "Sightline";
  summary.textContent = status.running ? `${live} of ${status.streams.length} streams live` : "not running";
  summary.className = !status.running || !status.ready ? "bad" : status.overloaded ? "warn" : "good";
  at("facts").textContent = [status.device, status.running && `up ${duration(status.seconds)}`].filter(Boolean).join(" · ");
  const memory = status.process.resident_bytes;
  const facts = [memory && `${Math.round(memory / 2 ** 20)} MiB`, `${status.process.threads} threads`];
  at("process").textContent = facts.filter(Boolean).join(", ");
  showServed(status.served);
  showAlarm(status.overloaded ? "Overloaded: live streams drop frames, because they are more than this machine carries." : "", "warn");
}

// Links to the pages of steps, such as live video of `publish`.
function showServed(steps) {
  const links = steps.map((step) => Object.assign(document.createElement("a"), { href: `steps/${encodeURIComponent(step)}/`, textContent: step }));
  at("served").replaceChildren(...links.flatMap((link) => [link, " "]));
}

function showAlarm(text, kind) {
  at("alarm").hidden = !text;
  at("alarm").className = kind;
  at("alarm").textContent = text;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("status", { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401) return showAlarm("The token is not accepted any more: open this page with the token again.", "bad");
    if (!answer.ok) throw new Error(String(answer.status));
    const status = await answer.json();
    hasImages = status.images;
    showSummary(status);
    showStreams(status.streams);
    showSteps(status);
    showRows("queues", status.links.map((link) => [
      link.stream === null ? link.name : `${link.name} ${link.stream}`,
      `${link.depth} / ${link.capacity}`,
      link.depth ? milliseconds(1000 * link.oldest_age_seconds) : "",
    ]));
    showDeliveries(status.deliveries);
    showMessages(status.messages);
  } catch {
    showAlarm("No answer: the pipeline has ended, or cannot be reached.", "bad");
    at("summary").className = "bad";
  }
}

function loadImage(parts) {
  const next = new Image();
  parts.isLoading = true;
  next.alt = `live image of ${parts.name}`;
  next.onload = () => {
    parts.screen.querySelector("img")?.remove();
    parts.screen.append(next);
    parts.isLoading = false;
  };
  next.onerror = () => (parts.isLoading = false);
  next.src = `streams/${encodeURIComponent(parts.name)}/image.jpg?${Date.now()}`;
}

function refreshImages() {
  if (document.hidden || !hasImages) return;
  for (const parts of cards.values()) {
    if (parts.state === "live" && !parts.isLoading && seen.has(parts.card)) loadImage(parts);
  }
}

async function repeat(work, everyMs) {
  await work();
  setTimeout(repeat, everyMs, work, everyMs);
}

repeat(refresh, STATUS_EVERY_MS);
repeat(refreshImages, IMAGE_EVERY_MS);
document.addEventListener("visibilitychange", refresh);
