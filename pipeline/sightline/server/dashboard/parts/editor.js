// An editor of YAML: a text area with a coloured copy behind it, so that the browser does the editing, the caret, undo and
// what screen readers need, and this adds colours, line numbers, completion and marks.

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../lib.js";
import { t } from "../texts/index.js";
import { Prose } from "./prose.js";
import { suggestions } from "./schema.js";
import { contextAt, partsOf } from "./yaml.js";

const STEP = 2;
const MOST_COLOURED = 4000;
const MENU_HEIGHT = 300;

/**
 * The editor. `problems` are those of the API (`line`, `column`, `length`, `message`), `schema` is the JSON Schema that
 * completion goes by, `jump` is `{line, column}` to go to, a new object each time.
 */
export function Editor({ text, onChange, problems, schema, readOnly, label, describedBy, jump }) {
  const area = useRef();
  const frame = useRef();
  const [menu, setMenu] = useState(null);
  const mayLeave = useRef(false);
  const lines = text.split("\n");
  const marks = useMemo(() => marksOf(lines, problems), [text, problems]);
  const isColoured = lines.length <= MOST_COLOURED;

  useEffect(() => {
    if (!jump) return;
    area.current.focus();
    area.current.selectionStart = area.current.selectionEnd = offsetOf(lines, jump.line, jump.column);
    reveal(frame.current, area.current);
  }, [jump]);

  const suggest = (isAsked) => {
    const { selectionStart: caret, selectionEnd: end, value } = area.current;
    const context = schema && caret === end ? contextAt(value, caret) : null;
    const isWanted = context && (isAsked || context.prefix || (context.kind === "value" && value[caret - 1] === " "));
    const found = isWanted ? suggestions(schema, context) : [];
    setMenu(found.length ? { found, chosen: 0, context, caret, ...placeOf(frame.current, area.current) } : null);
  };
  const accept = (one) => {
    const { context, caret } = menu;
    area.current.setSelectionRange(context.start, caret);
    const opens = one.insert.endsWith(" ");
    insert(area.current, context.kind === "key" && /^ *:/.test(text.slice(caret)) ? one.label : one.insert);
    setMenu(null);
    if (opens) suggest(true);
  };
  const typed = (event) => {
    onChange(event.target.value);
    mayLeave.current = false;
    if (event.inputType !== "historyUndo" && event.inputType !== "historyRedo") suggest(false);
    reveal(frame.current, area.current);
  };
  const pressed = (event) => {
    if (readOnly || event.isComposing) return;
    if (menu && chooses(event, menu, setMenu, accept)) return event.preventDefault();
    if (event.key === "Escape") {
      mayLeave.current = true;
    } else if (event.key === " " && event.ctrlKey) {
      event.preventDefault();
      suggest(true);
    } else if (event.key === "Tab" && !mayLeave.current) {
      event.preventDefault();
      indent(area.current, event.shiftKey);
    } else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      insert(area.current, `\n${" ".repeat(nextIndent(area.current))}`);
    } else if (/^(Arrow|Home|End|Page)/.test(event.key)) {
      setMenu(null);
      requestAnimationFrame(() => area.current && reveal(frame.current, area.current));
    }
  };
  return html`<div class="editor" ref=${frame}>
    <div class="sheet" style=${{ minWidth: `calc(${Math.max(...lines.map((line) => line.length))}ch + 6rem)` }}>
      <pre aria-hidden="true">${lines.map((line, at) => html`
        <${Line} key=${at} line=${line} marks=${marks.get(at)} isColoured=${isColoured} />`)}</pre>
      <textarea ref=${area} value=${text} aria-label=${label} aria-describedby=${describedBy} readonly=${readOnly}
        aria-invalid=${problems.length > 0} aria-autocomplete="list" aria-controls=${menu ? "suggestions" : undefined}
        aria-activedescendant=${menu ? `suggestion-${menu.chosen}` : undefined}
        spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off"
        onInput=${typed} onKeyDown=${pressed} onBlur=${() => setMenu(null)} onPointerDown=${() => setMenu(null)}></textarea>
      ${menu && html`<${Menu} ...${menu} onAccept=${accept} />`}
    </div>
    <p class="hidden" role="status">${menu ? t("configuration.suggestionCount", { count: menu.found.length }) : ""}</p>
  </div>`;
}

function Line({ line, marks, isColoured }) {
  if (!isColoured && !marks) return html`<div class="line">${line}\n</div>`;
  return html`<div class=${marks ? "line wrong" : "line"}>${split(partsOf(line), marks ?? []).map(({ text, kind, isWrong }) => html`
    <span class=${`${kind && `y-${kind}`} ${isWrong ? "mistake" : ""}`}>${text}</span>`)}${"\n"}</div>`;
}

// The parts of a line, cut where marks begin and end.
function split(parts, marks) {
  const cuts = marks.flatMap(([from, to]) => [from, to]);
  const found = [];
  let at = 0;
  for (const { text, kind } of parts) {
    const inside = cuts.filter((cut) => cut > at && cut < at + text.length);
    for (const [from, to] of pairs([at, ...inside.sort((one, other) => one - other), at + text.length])) {
      const isWrong = marks.some(([start, end]) => from >= start && to <= end);
      found.push({ text: text.slice(from - at, to - at), kind, isWrong });
    }
    at += text.length;
  }
  return found;
}

const pairs = (numbers) => numbers.slice(1).map((one, at) => [numbers[at], one]);

// Ranges to mark by line, from 0. The API counts characters, and texts here are counted in UTF-16.
function marksOf(lines, problems) {
  const marks = new Map();
  for (const { line, column, length } of problems) {
    if (!line || line > lines.length) continue;
    const letters = Array.from(lines[line - 1]);
    const from = letters.slice(0, column - 1).join("").length;
    const to = from + Math.max(letters.slice(column - 1, column - 1 + length).join("").length, 1);
    marks.set(line - 1, [...(marks.get(line - 1) ?? []), [from, to]]);
  }
  return marks;
}

function offsetOf(lines, line, column) {
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Array.from(lines[line - 1] ?? "").slice(0, column - 1).join("").length;
}

function Menu({ found, chosen, left, top, height, isAbove, onAccept }) {
  const list = useRef();
  useLayoutEffect(() => list.current?.children[chosen]?.scrollIntoView({ block: "nearest" }), [chosen]);
  const doc = found[chosen].doc;
  const place = isAbove ? { top: `${top}px`, transform: "translateY(-100%)" } : { top: `${top + height}px` };
  return html`<div class="suggestions" style=${{ left: `${left}px`, ...place }}>
    <ul role="listbox" id="suggestions" aria-label=${t("configuration.suggestions")} ref=${list}>
      ${found.map((one, at) => html`<li key=${one.label} role="option" id=${`suggestion-${at}`} aria-selected=${at === chosen}
        onPointerDown=${(event) => { event.preventDefault(); onAccept(one); }}>
        <b>${one.label}${one.isRequired && html`<span class="warn"> *</span>`}</b> <span class="faint small">${one.detail}</span></li>`)}
    </ul>
    ${doc && html`<div class="doc small"><${Prose} text=${doc.split("\n\n")[0]} /></div>`}
  </div>`;
}

// Move in the menu, or take what is chosen; whether the key was for it.
function chooses(event, menu, setMenu, accept) {
  const count = menu.found.length;
  const move = { ArrowDown: 1, ArrowUp: count - 1 }[event.key];
  if (move !== undefined) setMenu({ ...menu, chosen: (menu.chosen + move) % count });
  else if (event.key === "Escape") setMenu(null);
  else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey) accept(menu.found[menu.chosen]);
  else return false;
  return true;
}

// Type a text instead of what is selected, so that it can be undone.
function insert(area, text) {
  if (document.execCommand("insertText", false, text)) return;
  area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new InputEvent("input", { bubbles: true }));
}

function indent(area, isBack) {
  const { selectionStart: from, selectionEnd: to, value } = area;
  const start = value.lastIndexOf("\n", from - 1) + 1;
  if (from === to && !isBack) return insert(area, " ".repeat(STEP - ((from - start) % STEP)));
  const end = value.indexOf("\n", Math.max(to - 1, from));
  const block = value.slice(start, end < 0 ? value.length : end);
  const moved = block.split("\n").map((line) => (isBack ? line.replace(/^ {1,2}/, "") : line && " ".repeat(STEP) + line)).join("\n");
  if (moved === block) return undefined;
  area.setSelectionRange(start, start + block.length);
  insert(area, moved);
  if (from === to) area.selectionStart = area.selectionEnd = Math.max(start, from - STEP);
  else area.setSelectionRange(start, start + moved.length);
  return undefined;
}

// Where a line after the caret begins: below what it belongs to.
function nextIndent(area) {
  const line = area.value.slice(area.value.lastIndexOf("\n", area.selectionStart - 1) + 1, area.selectionStart);
  const dashes = /^\s*(?:- +)*/.exec(line)[0];
  if (!/:\s*(#.*)?$/.test(line)) return dashes.trim() ? (/:/.test(line) ? dashes.length : dashes.search(/\S/)) : dashes.length;
  return dashes.length + STEP;
}

// Where the caret is on the sheet, in pixels.
function placeOf(frame, area) {
  const before = area.value.slice(0, area.selectionStart).split("\n");
  const line = frame.querySelectorAll(".line")[before.length - 1];
  const sheet = area.parentElement.getBoundingClientRect();
  if (!line) return { left: 0, top: 0, height: 0 };
  const { left, top, height } = letterBox(line, before.at(-1).length) ?? line.getBoundingClientRect();
  const width = Math.min(frame.clientWidth, 480);
  const most = frame.scrollLeft + frame.clientWidth - width;
  const lineTop = top - sheet.top;
  const isAbove = lineTop + height + MENU_HEIGHT > frame.scrollTop + frame.clientHeight && lineTop - MENU_HEIGHT > frame.scrollTop;
  return { left: Math.max(Math.min(left - sheet.left, most), frame.scrollLeft), top: lineTop, caretLeft: left - sheet.left, height, isAbove };
}

// The box of a letter of a line; of the end of its text before the last.
function letterBox(line, at) {
  const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
  let left = at;
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (left <= node.length) {
      const range = document.createRange();
      range.setStart(node, left);
      range.setEnd(node, left);
      return range.getClientRects()[0] ?? null;
    }
    left -= node.length;
  }
  return null;
}

// Scroll so that the caret is seen.
function reveal(frame, area) {
  const { top, height, caretLeft = 0 } = placeOf(frame, area);
  if (top < frame.scrollTop) frame.scrollTop = top;
  else if (top + 2 * height > frame.scrollTop + frame.clientHeight) frame.scrollTop = top + 2 * height - frame.clientHeight;
  if (caretLeft - 60 < frame.scrollLeft) frame.scrollLeft = Math.max(caretLeft - 90, 0);
  else if (caretLeft + 30 > frame.scrollLeft + frame.clientWidth) frame.scrollLeft = caretLeft + 60 - frame.clientWidth;
}
