// The keys that do something: those of the whole dashboard act here, those of screens act in them and are listed here.

import { html, useEffect, useKept, useState } from "../lib.js";
import { go, href } from "../router.js";
import { SCREENS } from "../screens.js";
import { t } from "../texts/index.js";
import { Dialog } from "./basic.js";

const MENU = SCREENS.filter(({ under }) => !under);
const ARROWS = "← ↑ → ↓";
const SCREEN_KEYS = [
  ["camera", "shortcuts.camera", [["← →", "shortcuts.cameras"]]],
  ["search", "search.screen", [["/", "shortcuts.toSearch"], [ARROWS, "shortcuts.moveTrack"], ["Enter", "shortcuts.openTrack"]]],
  ["zones", "zones.screen", [
    [ARROWS, "shortcuts.moveShape"],
    ["Shift, Ctrl", "shortcuts.farAndFine"],
    ["Enter", "shortcuts.setPoint"],
    ["Insert, +", "shortcuts.addPoint"],
    ["Delete", "shortcuts.remove"],
    ["Ctrl+Z, Ctrl+Y", "shortcuts.undo"],
    ["Esc", "shortcuts.cancel"],
  ]],
  ["graph", "graph.screen", [
    [ARROWS, "shortcuts.moveFocus"],
    ["Enter", "shortcuts.openStep"],
    ["+ − 0", "shortcuts.zoom"],
  ]],
  ["configuration", "configuration.screen", [
    ["Ctrl+Space", "shortcuts.suggest"],
    ["Esc", "shortcuts.leaveEditor"],
  ]],
];

const isTyping = (target) => target.closest?.("input, textarea, select, [contenteditable], dialog") !== null;

/** The button that lists all keys; `?` does so, too, and numbers open the screens of the menu. */
export function Shortcuts({ pipeline }) {
  const [isOpen, setOpen] = useState(false);
  const [isOn, setOn] = useKept("shortcuts", true);
  useEffect(() => {
    const press = (event) => {
      if (!isOn || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "?") setOpen(true);
      else if (pipeline && MENU[event.key - 1]) go(href(pipeline, MENU[event.key - 1].name));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [pipeline, isOn]);
  return html`<button class="plain" id="shortcuts" onClick=${() => setOpen(true)} title=${t("shortcuts.title")} aria-label=${t("shortcuts.title")}>?</button>
    ${isOpen && html`<${Dialog} title=${t("shortcuts.title")} onClose=${() => setOpen(false)}>
      <${Keys} rows=${[
        ["?", t("shortcuts.list")],
        ...MENU.map(({ title }, index) => [String(index + 1), t("shortcuts.open", { screen: t(title) })]),
        ["Tab, Esc", t("shortcuts.usual")],
      ]} />
      ${SCREEN_KEYS.map(([name, title, rows]) => html`<section key=${name}><h3>${t(title)}</h3>
        <${Keys} rows=${rows.map(([keys, text]) => [keys, t(text)])} /></section>`)}
      <label class="bar"><input type="checkbox" checked=${isOn} onChange=${(event) => setOn(event.target.checked)} /> ${t("shortcuts.on")}</label>
    </${Dialog}>`}`;
}

const Keys = ({ rows }) => html`<dl class="keys">${rows.map(([keys, text]) => html`<div key=${text}><dt><kbd>${keys}</kbd></dt><dd>${text}</dd></div>`)}</dl>`;
