// Short notices in a corner: what was done, and what could not be.

import { html, useEffect, useState } from "../lib.js";
import { t } from "../texts/index.js";

const SHOWN_MS = 6000;
const MOST = 4;
let show = () => {};
let number = 0;

/** Tell something for some seconds; `kind` is good, warn or bad. */
export const notify = (text, kind = "good") => show({ text, kind, id: ++number });

/** Do something that may be refused, and tell the refusal; returns what it returns, or undefined. */
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    notify(error.message, "bad");
    return undefined;
  }
}

/** Where notices appear; once on the page. */
export function Notices() {
  const [notices, setNotices] = useState([]);
  useEffect(() => {
    const drop = (id) => setNotices((known) => known.filter((one) => one.id !== id));
    show = (notice) => {
      setNotices((known) => [...known.slice(1 - MOST), { ...notice, drop: () => drop(notice.id) }]);
      setTimeout(drop, SHOWN_MS, notice.id);
    };
    return () => (show = () => {});
  }, []);
  return html`<div class="notices" role="status" aria-live="polite">
    ${notices.map(({ id, text, kind, drop }) => html`<p key=${id} class="notice ${kind}">
      <span>${text}</span><button class="plain" onClick=${drop} aria-label=${t("shell.close")}>✕</button>
    </p>`)}
  </div>`;
}
