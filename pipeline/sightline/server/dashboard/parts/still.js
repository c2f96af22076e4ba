// The newest image of a stream, renewed while it is on the screen and the page can be seen.

import { address, path } from "../api.js";
import { html, useEffect, useRef, useState } from "../lib.js";

const RETRY_MS = 3000;

/** Whether an element is on the screen, and the reference to give to it: `const [place, isSeen] = useSeen()`. */
export function useSeen() {
  const place = useRef();
  const [isSeen, setSeen] = useState(false);
  useEffect(() => {
    const watcher = new IntersectionObserver((entries) => setSeen(entries.at(-1).isIntersecting));
    watcher.observe(place.current);
    return () => watcher.disconnect();
  }, []);
  return [place, isSeen];
}

/** Whether somebody can see the page. */
export function usePageSeen() {
  const [isSeen, setSeen] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setSeen(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return isSeen;
}

/**
 * The newest image of a stream, asked for again `everyMs` after it came; the last one stays while none comes. `isOn` false
 * asks once, such as for what a lost camera showed last.
 */
export function Still({ pipeline, stream, alt, everyMs = 500, width = 480, isOn = true }) {
  const [place, isSeen] = useSeen();
  const isPageSeen = usePageSeen();
  const isWanted = isSeen && isPageSeen;
  useEffect(() => {
    if (!isWanted) return undefined;
    let timer;
    let isGone = false;
    const ask = () => {
      const next = Object.assign(new Image(), { alt });
      const again = (afterMs) => isGone || !isOn || (timer = setTimeout(ask, afterMs));
      next.onload = () => {
        if (!isGone) place.current.replaceChildren(next);
        again(everyMs);
      };
      next.onerror = () => again(Math.max(everyMs, RETRY_MS));
      next.src = address(path(pipeline, "streams", stream, "image.jpg"), { width, at: Date.now() });
    };
    ask();
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  }, [pipeline, stream, alt, everyMs, width, isOn, isWanted]);
  return html`<div class="still" ref=${place}></div>`;
}
