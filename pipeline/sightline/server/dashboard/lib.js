// What screens and parts build on: Preact with htm, and little else. Modules import from here, never from `vendor/`.

import { html, useEffect, useState } from "./vendor/preact-htm.js";

export {
  createContext,
  html,
  render,
  useCallback,
  useContext,
  useEffect,
  useErrorBoundary,
  useLayoutEffect,
  useMemo,
  useReducer,
  useRef,
  useState,
} from "./vendor/preact-htm.js";

const here = new URL(".", import.meta.url);
const sheets = new Map();

/** Load a style sheet of this folder once; a screen awaits it before it shows itself: `await styles("screens/wall.css")`. */
export function styles(path) {
  if (!sheets.has(path)) {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL(path, here).href });
    sheets.set(path, new Promise((resolve, reject) => Object.assign(link, { onload: resolve, onerror: reject })));
    document.head.append(link);
  }
  return sheets.get(path);
}

const scripts = new Map();

/** Load a script of this folder that is no module, and return the global that it makes: `await script("vendor/uplot.js", "uPlot")`. */
export function script(path, name) {
  if (!scripts.has(path)) {
    const element = Object.assign(document.createElement("script"), { src: new URL(path, here).href });
    scripts.set(path, new Promise((resolve, reject) => Object.assign(element, { onload: resolve, onerror: reject })));
    document.head.append(element);
  }
  return scripts.get(path).then(() => window[name]);
}

/** The time now in milliseconds, renewed at an interval: for "2 min ago". */
export function useNow(everyMs = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A value that the browser keeps, such as a choice of what is shown; `[value, set]`. */
export function useKept(key, initial) {
  const [value, setValue] = useState(() => {
    try {
      return JSON.parse(localStorage.getItem(`sightline.${key}`)) ?? initial;
    } catch {
      return initial; // not ours, or storage is forbidden
    }
  });
  const set = (next) => {
    setValue(next);
    try {
      localStorage.setItem(`sightline.${key}`, JSON.stringify(next));
    } catch {
      // it holds until the page is left
    }
  };
  return [value, set];
}
