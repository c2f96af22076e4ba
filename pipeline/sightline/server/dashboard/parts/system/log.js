// The newest lines of the log, newest first, and new ones as they come.

import { path, read } from "../../api.js";
import { timeOfDay } from "../../format.js";
import { html, useEffect, useKept, useState } from "../../lib.js";
import { t } from "../../texts/index.js";
import { Empty, ErrorBox, Panel } from "../basic.js";

const LEVELS = ["debug", "info", "warning", "error"];
const MOST = 500;
const EVERY_MS = 2000;

// Lines from a level on, oldest first; followed while `isFollowed` and while the page can be seen.
function useLines(pipeline, level, isFollowed) {
  const [known, setKnown] = useState({ lines: [], level: "", error: null });
  useEffect(() => {
    const asking = new AbortController();
    let after = 0;
    let timer;
    const ask = async () => {
      try {
        const isNew = after === 0;
        if (isNew || !document.hidden) {
          const query = { level, after, limit: MOST };
          const answer = await read(path(pipeline, "logs"), { query, signal: asking.signal });
          after = answer.newest;
          setKnown((before) => ({ lines: [...(isNew ? [] : before.lines), ...answer.lines].slice(-MOST), level: answer.level, error: null }));
        }
      } catch (error) {
        if (asking.signal.aborted) return;
        setKnown((before) => ({ ...before, error }));
      }
      if (isFollowed && !asking.signal.aborted) timer = setTimeout(ask, EVERY_MS);
    };
    ask();
    return () => {
      asking.abort();
      clearTimeout(timer);
    };
  }, [pipeline, level, isFollowed]);
  return known;
}

/** The log with what chooses its lines. */
export function Log({ pipeline }) {
  const [level, setLevel] = useKept("log.level", "info");
  const [isFollowed, setFollowed] = useState(true);
  const [text, setText] = useState("");
  const { lines, level: lowest, error } = useLines(pipeline, level, isFollowed);
  const wanted = text.toLowerCase();
  const shown = lines.filter((line) => `${line.logger} ${line.text}`.toLowerCase().includes(wanted)).reverse();
  return html`<${Panel} title=${t("system.log")} class="panel across log-panel">
    <div class="bar">
      <label>${t("system.level")} <select value=${level} onChange=${(event) => setLevel(event.target.value)}>
        ${LEVELS.map((one) => html`<option key=${one} value=${one}>${t(`system.level_${one}`)}</option>`)}</select></label>
      <label class="grow"><span class="hidden">${t("system.search")}</span>
        <input type="search" placeholder=${t("system.search")} value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <label><input type="checkbox" checked=${isFollowed} onChange=${(event) => setFollowed(event.target.checked)} /> ${t("system.follow")}</label>
    </div>
    <${ErrorBox} error=${error} />
    ${shown.length === 0
      ? html`<${Empty}>${t("system.noLines", { level: lowest })}</${Empty}>`
      : html`<ol class="log" tabindex="0" aria-label=${t("system.log")}>${shown.map((line) => html`
        <li key=${line.number} class=${line.level}><time class="faint">${timeOfDay(line.time)}</time>
          <span class="level">${line.level}</span><span class="faint logger">${line.logger}</span><span class="text">${line.text}</span></li>`)}</ol>`}
  </${Panel}>`;
}
