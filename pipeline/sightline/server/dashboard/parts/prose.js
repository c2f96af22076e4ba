// Documentation as it stands in docstrings: paragraphs, lists, blocks of code, and words in backticks.

import { html } from "../lib.js";

/** A text of a docstring, always as text: markup in it is not run. */
export function Prose({ text }) {
  const blocks = text.split(/\n?```\w*\n?/).flatMap((part, at) => (at % 2 ? [{ code: part }] : part.split(/\n{2,}/).map((one) => ({ text: one.trim() }))));
  return blocks.filter((block) => block.code ?? block.text).map((block) => {
    if (block.code) return html`<pre class="prose-code">${block.code}</pre>`;
    if (/^- /m.test(block.text)) {
      const [before, ...items] = block.text.split(/^- /m);
      return html`${before.trim() && html`<p class="prose">${words(before)}</p>`}<ul class="prose">${items.map((item) => html`<li>${words(item)}</li>`)}</ul>`;
    }
    return html`<p class="prose">${words(block.text)}</p>`;
  });
}

const words = (text) => text.replace(/\s+/g, " ").split("`").map((part, at) => (at % 2 ? html`<code>${part}</code>` : part));
