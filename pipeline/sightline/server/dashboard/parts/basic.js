// Small parts that every screen uses.

import { html, useEffect, useRef } from "../lib.js";
import { t } from "../texts/index.js";

/** A word about a state, in its colour: `kind` is good, warn, bad, calm or faint. */
export const Badge = ({ kind = "calm", children }) => html`<span class="badge ${kind}">${children}</span>`;

/** A box with a heading. */
export const Panel = ({ title, actions, children, ...rest }) => html`
  <section class="panel" aria-label=${title} ...${rest}>
    <div class="panel-head"><h2>${title}</h2>${actions}</div>
    ${children}
  </section>`;

export const Loading = () => html`<p class="faint" role="status">${t("shell.loading")}…</p>`;
export const Empty = ({ children }) => html`<p class="empty">${children}</p>`;

/** What went wrong, in the words of the server, with all problems that it names. */
export function ErrorBox({ error }) {
  if (!error) return null;
  const problems = error.problem?.problems ?? [];
  const text = ({ path, message }) => [path, message].filter(Boolean).join(": ");
  const further = problems.map(text).filter((one) => !error.message.includes(one));
  return html`<div class="alarm bad" role="alert">
    <p>${error.message}</p>
    ${further.length > 0 && html`<ul>${further.map((one) => html`<li>${one}</li>`)}</ul>`}
  </div>`;
}

/** A table that scrolls by itself: `head` and `rows` are lists of cells. */
export const Table = ({ head, rows, label }) => html`
  <div class="wide" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><tr>${head.map((cell) => html`<th scope="col">${cell}</th>`)}</tr></thead>
      <tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`;

/** A dialog above the page while it is rendered; Escape and the button close it. */
export function Dialog({ title, onClose, children, wide = false }) {
  const dialog = useRef();
  useEffect(() => {
    const element = dialog.current;
    element.showModal();
    return () => element.close();
  }, []);
  return html`<dialog ref=${dialog} class=${wide ? "wide-dialog" : ""} aria-label=${title}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <div class="panel-head"><h2>${title}</h2><button class="plain" onClick=${onClose} aria-label=${t("shell.close")}>✕</button></div>
    ${children}
  </dialog>`;
}
