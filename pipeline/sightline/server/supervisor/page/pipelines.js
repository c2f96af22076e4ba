"use strict";

const STATUS_EVERY_MS = 1000;
const PATIENCE_MS = 5000;
const STATES = { backing_off: "failed", running: "not ready" };
const KINDS = { ready: "live", backing_off: "failed", invalid: "failed", running: "stalled", ended: "ended", stopped: "ended" };

const at = (id) => document.getElementById(id);
const cards = new Map();

function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

function makeCard(name) {
  const card = at("card").content.firstElementChild.cloneNode(true);
  card.querySelector("a").textContent = name;
  at("streams").append(card);
  return card;
}

function showPipeline(card, pipeline, now) {
  const state = pipeline.ready ? "ready" : pipeline.state;
  const badge = card.querySelector(".badge");
  const put = (of, text, kind = "") => Object.assign(card.querySelector(`[data-of=${of}]`), { textContent: text, className: kind });
  card.querySelector("a").href = pipeline.url;
  badge.className = `badge ${KINDS[state] || ""}`;
  badge.textContent = STATES[state] || state;
  const next = pipeline.next_attempt_seconds;
  const cause = card.querySelector(".cause");
  cause.hidden = !pipeline.why;
  cause.textContent = pipeline.why + (next > 1 ? `; next attempt in ${Math.ceil(next)} s` : "");
  put("since", duration(now - pipeline.since));
  put("restarts", String(pipeline.restarts), pipeline.failures_in_a_row > 0 ? "warn" : "");
  put("memory", pipeline.resident_bytes ? `${Math.round(pipeline.resident_bytes / 2 ** 20)} MiB` : "");
  const last = pipeline.last_exit;
  card.querySelector(".small").textContent = [pipeline.file, last && `last end ${duration(now - last.at)} ago: ${last.reason}`].filter(Boolean).join(" · ");
}

function showPipelines(pipelines, now) {
  const names = new Set(pipelines.map((pipeline) => pipeline.name));
  for (const [name, card] of cards) {
    if (!names.has(name)) {
      card.remove();
      cards.delete(name);
    }
  }
  for (const pipeline of pipelines) {
    if (!cards.has(pipeline.name)) cards.set(pipeline.name, makeCard(pipeline.name));
    showPipeline(cards.get(pipeline.name), pipeline, now);
  }
}

function showMessages(messages) {
  const line = (message) => {
    const item = document.createElement("li");
    const when = Object.assign(document.createElement("time"), { textContent: new Date(message.time * 1000).toLocaleTimeString() });
    const times = message.count > 1 ? ` (${message.count} times)` : "";
    item.append(when, Object.assign(document.createElement("span"), { textContent: message.text + times }));
    return item;
  };
  at("messages").replaceChildren(...messages.map(line));
}

function showSummary(status) {
  const ready = status.pipelines.filter((pipeline) => pipeline.ready).length;
  const bad = status.pipelines.some((pipeline) => pipeline.state === "backing_off" || pipeline.state === "invalid");
  at("summary").textContent = `${ready} of ${status.pipelines.length} pipelines ready`;
  at("summary").className = bad ? "bad" : "good";
  const memory = status.process.resident_bytes;
  at("process").textContent = memory ? `${Math.round(memory / 2 ** 20)} MiB` : "";
}

function showAlarm(text) {
  at("alarm").hidden = !text;
  at("alarm").textContent = text;
}

async function refresh() {
  if (document.hidden) return;
  try {
    const answer = await fetch("status", { signal: AbortSignal.timeout(PATIENCE_MS) });
    if (answer.status === 401) return showAlarm("The token is not accepted any more: open this page with the token again.");
    if (!answer.ok) throw new Error(String(answer.status));
    const status = await answer.json();
    showSummary(status);
    showPipelines(status.pipelines, status.time);
    showMessages(status.messages);
    showAlarm("");
  } catch {
    showAlarm("No answer: the server has ended, or cannot be reached.");
    at("summary").className = "bad";
  }
}

async function repeat(work, everyMs) {
  await work();
  setTimeout(repeat, everyMs, work, everyMs);
}

repeat(refresh, STATUS_EVERY_MS);
document.addEventListener("visibilitychange", refresh);
