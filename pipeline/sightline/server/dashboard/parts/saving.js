// Saving drawn rules to the running pipeline, and what somebody else has changed meanwhile.

import { change, path } from "../api.js";
import { html } from "../lib.js";
import { changesOf } from "./draft.js";
import { t } from "../texts/index.js";

const PROVE_SECONDS = 2;
const PATIENCE_MS = 120_000;

/**
 * Save what a draft changes: rules of steps that are there at once, all or none; then steps that have lost their last
 * rule go, and new ones come. Returns whether steps are others now. Throws ApiError.
 */
export async function saveDraft(pipeline, draft) {
  const changes = changesOf(draft);
  const isNew = (key) => draft.steps.some((one) => one.key === key);
  const isEmpty = (key) => !draft.shapes.some((one) => one.element === key);
  const steps = Object.keys(changes);
  let etag = draft.etag;
  const send = async (method, to, body) => {
    ({ etag } = await change(method, to, body, { ifMatch: etag, query: { prove: PROVE_SECONDS }, patienceMs: PATIENCE_MS }));
  };
  const edited = steps.filter((key) => !isNew(key) && !isEmpty(key));
  if (edited.length) await send("PATCH", path(pipeline, "rules"), Object.fromEntries(edited.map((key) => [key, changes[key]])));
  for (const key of steps.filter((one) => isEmpty(one) && !isNew(one))) await send("DELETE", path(pipeline, "elements", key));
  for (const step of draft.steps.filter(({ key }) => !isEmpty(key))) {
    const added = [...step.before, { [step.kind]: { ...step.options, ...changes[step.key] } }];
    await send("POST", path(pipeline, "elements"), { steps: added, after: step.after });
  }
  return steps.some((key) => isNew(key) || isEmpty(key));
}

/** Steps that lose their last rule, which takes the role admin. */
export const emptiedSteps = (draft) =>
  [...new Set(draft.base.map((one) => one.element))].filter((key) => !draft.shapes.some((one) => one.element === key));

/** Rules that somebody else has changed as well, with the choice whose stays. */
export function Conflicts({ draft, onSettle }) {
  if (draft.conflicts.length === 0) return null;
  return html`<section class="alarm warn" aria-label=${t("zones.conflicts")} role="alert">
    ${draft.conflicts.map((one) => html`<div class="conflict" key=${one.shape}>
      <p>${conflictText(one)}</p>
      <button onClick=${() => onSettle({ ...one, takes: false })}>${t("zones.keepMine")}</button>
      <button onClick=${() => onSettle({ ...one, takes: true })}>${t("zones.takeTheirs")}</button>
    </div>`)}
  </section>`;
}

const shown = (value) => (value === undefined ? "–" : JSON.stringify(value));

function conflictText({ base, theirs }) {
  if (!theirs) return t("zones.conflictGone", { name: base.name });
  const before = base?.options ?? {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(theirs.options)])];
  const what = names
    .filter((name) => shown(before[name]) !== shown(theirs.options[name]))
    .map((name) => t("zones.otherOptions", { name, theirs: shown(theirs.options[name]), before: shown(before[name]) }));
  return t("zones.conflictOther", { name: theirs.name, what: what.join("; ") });
}
