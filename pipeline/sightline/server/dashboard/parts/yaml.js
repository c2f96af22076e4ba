// YAML as it is typed: the colours of its parts, and what stands at the caret. Nothing here shows anything.
//
// A text that is being typed is rarely right, so this reads it by lines and brackets, and never fails; whether it is
// right, the server says.

const WORD = /^(?:true|false|null|~)$/i;
const NUMBER = /^[-+]?(?:\d[\d_]*\.?\d*(?:e[-+]?\d+)?|\.\d+|0x[\da-f]+)(?:ns|us|ms|s|m|h|d|%)?$/i;
const TOKEN = /(\s+)|(#.*$)|("(?:[^"\\]|\\.)*"?|'(?:[^']|'')*'?)(\s*:(?=\s|$))?|([[\]{},])|(-(?=\s|$))|((?:[^\s,[\]{}#:]|:(?=\S)|(?<=\S)#|\s(?=[^\s#:,[\]{}]))+)(\s*:(?=\s|$))?|(.)/gu;

/** The parts of a line: `[{text, kind}]`; kind is key, text, number, word, mark, comment or "". */
export function partsOf(line) {
  const parts = [];
  for (const [whole, space, comment, quoted, colon, bracket, dash, plain, plainColon] of line.matchAll(TOKEN)) {
    if (space) parts.push({ text: whole, kind: "" });
    else if (comment) parts.push({ text: whole, kind: "comment" });
    else if (quoted) parts.push({ text: quoted, kind: colon ? "key" : "text" }, ...(colon ? [{ text: colon, kind: "mark" }] : []));
    else if (bracket || dash) parts.push({ text: whole, kind: "mark" });
    else if (plain) {
      const kind = plainColon ? "key" : WORD.test(plain) ? "word" : NUMBER.test(plain) ? "number" : "text";
      parts.push({ text: plain, kind }, ...(plainColon ? [{ text: plainColon, kind: "mark" }] : []));
    } else parts.push({ text: whole, kind: "mark" });
  }
  return parts;
}

/**
 * What stands at an offset of a text: `{path, kind, prefix, start, indent, isFlow, siblings}`; null in comments and block
 * texts. `path` leads to the mapping whose `key` is typed, or to the `value`; `prefix` is what is typed of it, from
 * `start`; `siblings` are the other keys of the mapping; `indent` is the column of a key in a block.
 */
export function contextAt(text, offset) {
  const reader = new Reader(offset);
  let begin = 0;
  for (const line of text.split("\n")) {
    reader.line(line, begin);
    begin += line.length + 1;
  }
  if (!reader.context) return null;
  const keys = reader.keys.get(nameOf(reader.context.path)) ?? new Set();
  return { ...reader.context, siblings: [...keys] };
}

const nameOf = (path) => JSON.stringify(path);

// Reads lines from the top. `block` are the open mappings and lists by their columns, `flow` the open brackets.
class Reader {
  constructor(offset) {
    Object.assign(this, { offset, block: [], flow: [], keys: new Map(), context: null, textBelow: null });
  }

  line(line, begin) {
    const caret = this.offset - begin;
    const isHere = caret >= 0 && caret <= line.length;
    const typed = isHere ? line.slice(0, caret) : line;
    const indent = typed.search(/\S|$/);
    if (this.textBelow !== null) {
      if (!line.trim() || indent > this.textBelow) return;
      this.textBelow = null;
    }
    if (this.flow.length) this.flowed(typed, 0, begin, isHere);
    else this.blocked(typed, indent, begin, isHere, line);
  }

  blocked(line, indent, begin, isHere, whole) {
    let at = indent;
    while (/^-(\s|$)/.test(line.slice(at))) {
      this.item(at);
      at += 1 + (line.slice(at + 1).search(/\S|$/) || 0);
      if (at >= line.length) break;
    }
    const rest = line.slice(at);
    if (rest.startsWith("#")) return;
    const key = /^("[^"]*"|'[^']*'|[^\s#{}[\],][^#{}[\],]*?)\s*:(?=\s|$)/.exec(rest);
    if (!key) {
      if (/^[[{]/.test(rest)) this.flowed(line, at, begin, isHere);
      else if (isHere && !/\s#/.test(rest)) this.word(line, at, begin, !whole.slice(line.length).trim().startsWith(":"));
      return;
    }
    this.named(unquoted(key[1]), at);
    const value = at + key[0].length + line.slice(at + key[0].length).search(/\S|$/);
    const written = line.slice(value);
    if (/^[|>][-+\d]*\s*(#.*)?$/.test(written)) this.textBelow = at;
    else if (/^[[{]/.test(written)) this.flowed(line, value, begin, isHere);
    else if (isHere && value > at + key[0].length && !/(^|\s)#/.test(written)) {
      this.context = { path: this.path(), kind: "value", prefix: written, start: begin + value, indent: at, isFlow: false };
    }
  }

  // A word that may become a key, or is a value of a list.
  word(line, at, begin) {
    this.close(at);
    const top = this.block.at(-1);
    if (top?.type === "list" && top.indent === at) this.block.pop(); // a key behind a list that is not indented
    const above = this.block.at(-1);
    const path = above?.type === "map" && above.indent === at ? this.path().slice(0, -1) : this.path();
    this.context = { path, kind: "key", prefix: line.slice(at), start: begin + at, indent: at, isFlow: false };
  }

  item(column) {
    this.close(column);
    const top = this.block.at(-1);
    if (top?.type === "list" && top.indent === column) top.part += 1;
    else this.block.push({ type: "list", indent: column, part: 0 });
  }

  named(key, column) {
    this.close(column);
    if (this.block.at(-1)?.type === "list" && this.block.at(-1).indent === column) this.block.pop();
    const top = this.block.at(-1);
    if (top?.type === "map" && top.indent === column) top.part = key;
    else this.block.push({ type: "map", indent: column, part: key });
    this.note(this.path().slice(0, -1), key);
  }

  close(column) {
    while (this.block.length && this.block.at(-1).indent > column) this.block.pop();
  }

  path() {
    return [...this.block, ...this.flow].map(({ part }) => part).filter((part) => part !== null);
  }

  note(path, key) {
    const name = nameOf(path);
    if (!this.keys.has(name)) this.keys.set(name, new Set());
    this.keys.get(name).add(key);
  }

  flowed(line, from, begin, isHere) {
    let start = from;
    let at = from;
    while (at < line.length) {
      const letter = line[at];
      const top = this.flow.at(-1);
      if (letter === '"' || letter === "'") {
        const end = line.indexOf(letter, at + 1);
        if (end < 0) return; // within a text
        at = end;
      } else if (letter === "#" && (at === 0 || /\s/.test(line[at - 1]))) {
        return;
      } else if (letter === "{" || letter === "[") {
        this.flow.push({ type: letter, part: letter === "[" ? 0 : null });
        start = at + 1;
      } else if (letter === "}" || letter === "]") {
        this.flow.pop();
        if (!this.flow.length) return;
        start = at + 1;
      } else if (letter === "," && top) {
        top.part = top.type === "[" ? top.part + 1 : null;
        start = at + 1;
      } else if (letter === ":" && top?.type === "{" && top.part === null && /\s|^$/.test(line[at + 1] ?? "")) {
        const key = unquoted(line.slice(start, at).trim());
        this.note(this.path(), key);
        top.part = key;
        start = at + 1;
      }
      at += 1;
    }
    const top = this.flow.at(-1);
    if (!isHere || !top) return;
    const blank = line.slice(start).search(/\S|$/);
    const kind = top.type === "{" && top.part === null ? "key" : "value";
    this.context = { path: this.path(), kind, prefix: line.slice(start + blank), start: begin + start + blank, indent: 0, isFlow: true };
  }
}

function unquoted(text) {
  return /^(["']).*\1$/.test(text) ? text.slice(1, -1) : text;
}
