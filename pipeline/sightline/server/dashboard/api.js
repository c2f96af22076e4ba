// The API: requests, answers that are asked for again while somebody looks, events, and WebSockets.
// Paths are below `api/v1/` without a slash in front, such as `pipelines/street/streams`.

import { useEffect, useRef, useState } from "./lib.js";

const PATIENCE_MS = 10_000;
const base = new URL("api/v1/", document.baseURI);

/** A request that was refused, or got no answer (`status` 0). `problem` has the details (RFC 9457). */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || String(status));
    this.status = status;
    this.problem = problem;
  }
}

/** The path of a part of a pipeline: `path("street", "streams", name)`. */
export const path = (pipeline, ...parts) => ["pipelines", pipeline, ...parts].map(encodeURIComponent).join("/");

/** The address of a path, for `<img>`, `<video>` and links. `query` is an object; lists give a key several times. */
export function address(to, query = {}) {
  const url = new URL(to, base);
  for (const [key, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") url.searchParams.append(key, one);
    }
  }
  return url;
}

/** Ask, and return the response. Throws ApiError. A body that is neither a string nor a file is sent as JSON. */
export async function ask(to, { method = "GET", query, body, ifMatch, type, signal, patienceMs = PATIENCE_MS } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = type ?? (typeof body === "string" ? "text/plain" : "application/json");
  if (ifMatch) headers["If-Match"] = `"${ifMatch}"`;
  const limit = AbortSignal.timeout(patienceMs);
  let response;
  try {
    response = await fetch(address(to, query), {
      method,
      headers,
      body: body === undefined || typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body),
      signal: signal ? AbortSignal.any([signal, limit]) : limit,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { title: "no answer", detail: error.name === "TimeoutError" ? "no answer in time" : error.message });
  }
  if (!response.ok) throw new ApiError(response.status, await problemOf(response));
  return response;
}

async function problemOf(response) {
  const text = await response.text().catch(() => "");
  try {
    return JSON.parse(text);
  } catch {
    return { title: response.statusText, status: response.status, detail: text.trim() };
  }
}

/** Read a path as JSON. */
export const read = async (to, options) => (await ask(to, options)).json();

/** Change something, and return the answer as JSON; null when it has no body. */
export async function change(method, to, body, options = {}) {
  const text = await (await ask(to, { ...options, method, body })).text();
  return text ? JSON.parse(text) : null;
}

export const tagOf = (response) => (response.headers.get("ETag") ?? "").replace(/^W\//, "").replaceAll('"', "");

const NOTHING = { key: null, data: undefined, error: null, tag: "" };

// One request for all who look at the same path.
class Resource {
  constructor(to, everyMs) {
    Object.assign(this, { to, everyMs, watchers: new Set(), state: NOTHING });
  }

  watch(watcher) {
    this.watchers.add(watcher);
    if (this.watchers.size === 1) this.refresh();
    return () => {
      this.watchers.delete(watcher);
      if (this.watchers.size) return;
      clearTimeout(this.timer);
      this.asking?.abort();
      resources.delete(`${this.everyMs} ${this.to}`);
    };
  }

  async refresh() {
    clearTimeout(this.timer);
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    try {
      const response = await ask(this.to, { signal: asking.signal });
      this.state = { data: await response.json(), error: null, tag: tagOf(response) };
    } catch (error) {
      if (asking.signal.aborted) return;
      this.state = { ...this.state, error };
    }
    if (asking.signal.aborted) return;
    for (const watcher of this.watchers) watcher(this.state);
    this.poll();
  }

  poll() {
    if (!this.everyMs) return;
    const isSeen = () => !document.hidden || this.state.data === undefined;
    this.timer = setTimeout(() => (isSeen() ? this.refresh() : this.poll()), this.everyMs);
  }
}

const resources = new Map();
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) for (const resource of resources.values()) resource.refresh();
});

function resourceOf(to, everyMs) {
  const key = `${everyMs} ${to}`;
  if (!resources.has(key)) resources.set(key, new Resource(to, everyMs));
  return resources.get(key);
}

/**
 * What a path answers: `{data, error, tag, refresh}`. With `everyMs` it is asked for again while the page can be seen;
 * a failure keeps the last data. `to` null asks for nothing. The query belongs into `to`: `address(...)` makes it.
 */
export function useRead(to, everyMs = 0) {
  const key = to === null ? null : String(to);
  const [state, setState] = useState(NOTHING);
  useEffect(() => {
    if (key === null) return undefined;
    const resource = resourceOf(key, everyMs);
    const show = (next) => setState({ ...next, key });
    show(resource.state);
    return resource.watch(show);
  }, [key, everyMs]);
  const { data, error, tag } = state.key === key ? state : NOTHING; // not what another path has answered
  return { data, error, tag, refresh: () => key !== null && resourceOf(key, everyMs).refresh() };
}

/** How a pipeline is, as `GET pipelines/NAME` tells it, every second: streams, steps, queues, deliveries, messages. */
export const useStatus = (pipeline) => useRead(pipeline ? path(pipeline) : null, 1000);

/**
 * Call back with each record (events and messages) as it comes; `lost` is called with how many are missing. `pipeline` null
 * listens to nothing.
 */
export function useEvents(pipeline, query, onRecord, onLost = () => {}) {
  const called = useRef({});
  called.current = { onRecord, onLost };
  const to = pipeline === null ? null : address(path(pipeline, "events"), query).href;
  useEffect(() => {
    if (to === null) return undefined;
    const source = new EventSource(to);
    const tell = ({ data }) => called.current.onRecord(JSON.parse(data));
    source.addEventListener("event", tell);
    source.addEventListener("message", tell);
    source.addEventListener("lost", ({ data }) => called.current.onLost(JSON.parse(data).count));
    return () => source.close();
  }, [to]);
}

/** Open a WebSocket on a path; `binaryType` is that of buffers. */
export function socket(to, query) {
  const url = address(to, query);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return Object.assign(new WebSocket(url), { binaryType: "arraybuffer" });
}
