// The working copy of the rules of a pipeline: what differs from those that run, undo, what somebody else has changed
// meanwhile, and what of it the browser keeps. Plain data; `useDraft` holds it for a screen.

import { useEffect, useReducer } from "../lib.js";

const MOST_STEPS = 100;
let made = 0;

/**
 * @typedef {{id: string, element: string, name: string, options: object}} Shape A rule; `id` stays when it is renamed.
 * @typedef {{shape: string, base: ?Shape, theirs: ?Shape}} Conflict Both changed a rule; `theirs` null: it is gone.
 * @typedef {{key: string, kind: string, after: ?string, before: Array}} NewStep A step to add: `key` is `element` of
 *   its shapes, `before` are the steps that have to come with it.
 * @typedef {{etag: string, base: Shape[], shapes: Shape[], steps: NewStep[], past: object[], future: object[],
 *   conflicts: Conflict[], stable: ?object}} Draft
 */

const isTable = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const sorted = (_, value) => (isTable(value) ? Object.fromEntries(Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1))) : value);
const same = (one, other) => JSON.stringify(one, sorted) === JSON.stringify(other, sorted);
const named = (shapes, { element, name }) => shapes.find((one) => one.element === element && one.name === name);
const byId = (shapes, id) => shapes.find((one) => one.id === id);
const alike = (one, other) => Boolean(one) === Boolean(other) && (!one || (one.name === other.name && same(one.options, other.options)));

/** A new identity of a shape. */
export const newId = () => `new-${Date.now().toString(36)}-${++made}`;

/** A draft of rules as the API lists them. */
export const draftOf = (rules, etag) => {
  const base = shapesOf(rules, []);
  return { etag, base, shapes: base, steps: [], past: [], future: [], conflicts: [], stable: null };
};

const shapesOf = (rules, known) =>
  rules.map(({ element, name, options }) => ({ id: named(known, { element, name })?.id ?? newId(), element, name, options }));

/** What differs from the rules that run, by step: options of what is new or changed, null for what is gone. */
export function changesOf({ base, shapes }) {
  const changes = {};
  const put = (element, name, options) => ((changes[element] ??= {})[name] = options);
  for (const one of base) if (!named(shapes, one)) put(one.element, one.name, null);
  for (const one of shapes) {
    const before = named(base, one);
    if (!before || !same(before.options, one.options)) put(one.element, one.name, one.options);
  }
  return changes;
}

/** How many rules differ. */
export const changeCount = ({ base, shapes }) =>
  base.filter((one) => !byId(shapes, one.id)).length + shapes.filter((one) => !alike(byId(base, one.id), one)).length;

/** Whether a shape differs from the rule that runs. */
export const isChanged = ({ base }, shape) => !alike(byId(base, shape.id), shape);

/**
 * Take over the rules that run now. What somebody else changed and we did not is taken over; what both changed stays
 * ours and is a conflict, to be asked about.
 */
export function rebased(draft, rules, etag) {
  const theirs = shapesOf(rules, [...draft.base, ...draft.shapes]);
  const mine = merged(draft.base, draft.shapes, theirs);
  const history = (all) => all.map((one) => ({ ...one, shapes: merged(draft.base, one.shapes, theirs).shapes }));
  const still = draft.conflicts.filter((one) => !mine.conflicts.some((other) => other.shape === one.shape));
  return {
    ...draft,
    etag,
    base: theirs,
    shapes: mine.shapes,
    conflicts: [...still, ...mine.conflicts].filter((one) => !alike(byId(mine.shapes, one.shape), byId(theirs, one.shape))),
    past: history(draft.past),
    future: history(draft.future),
  };
}

function merged(base, mine, theirs) {
  const conflicts = [];
  const shapes = [];
  for (const own of mine) {
    const before = byId(base, own.id);
    const other = byId(theirs, own.id);
    if (alike(before, other)) shapes.push(own);
    else if (alike(before, own)) shapes.push(...(other ? [other] : []));
    else {
      shapes.push(own);
      if (!alike(own, other)) conflicts.push({ shape: own.id, base: before ?? null, theirs: other ?? null });
    }
  }
  for (const other of theirs) {
    if (byId(mine, other.id)) continue;
    const before = byId(base, other.id);
    if (before && alike(before, other)) continue; // we removed it
    if (before) conflicts.push({ shape: other.id, base: before, theirs: other });
    else if (!named(shapes, other)) shapes.push(other);
  }
  return { shapes, conflicts };
}

/** Our shapes run now, as the server writes them: `60s` is `1m`, which nobody else has changed. */
const savedAs = (draft, rules, etag) => rebased({ ...draft, base: draft.shapes, conflicts: [] }, rules, etag);

const state = ({ shapes, steps }) => ({ shapes, steps });

function reduced(draft, action) {
  switch (action.type) {
    case "open":
      return action.draft;
    case "edit": {
      const next = action.edit(state(draft));
      if (next === null || (same(next.shapes, draft.shapes) && same(next.steps ?? draft.steps, draft.steps))) return draft;
      const stable = draft.stable ?? state(draft);
      const isDone = !action.goesOn;
      const past = isDone ? [...draft.past.slice(1 - MOST_STEPS), stable] : draft.past;
      return { ...draft, ...next, past, future: [], stable: isDone ? null : stable };
    }
    case "done": {
      if (!draft.stable) return draft;
      const isSame = same(draft.stable.shapes, draft.shapes);
      return { ...draft, past: isSame ? draft.past : [...draft.past.slice(1 - MOST_STEPS), draft.stable], stable: null };
    }
    case "cancel":
      return draft.stable ? { ...draft, ...draft.stable, stable: null } : draft;
    case "undo": {
      const before = draft.past.at(-1);
      return before ? { ...draft, ...before, past: draft.past.slice(0, -1), future: [state(draft), ...draft.future] } : draft;
    }
    case "redo": {
      const [next, ...rest] = draft.future;
      return next ? { ...draft, ...next, past: [...draft.past, state(draft)], future: rest } : draft;
    }
    case "rebase":
      return draft && rebased(draft, action.rules, action.etag);
    case "saved":
      return savedAs(draft, action.rules, action.etag);
    case "settle": {
      const { theirs } = action;
      const conflicts = draft.conflicts.filter((one) => one.shape !== action.shape);
      if (!action.takes) return { ...draft, conflicts };
      const others = draft.shapes.filter((one) => one.id !== action.shape);
      return { ...draft, conflicts, shapes: theirs ? [...others, theirs] : others, past: [...draft.past, state(draft)], future: [] };
    }
    default:
      throw new Error(`a draft knows no ${action.type}`);
  }
}

/**
 * The draft of a pipeline's rules: `[draft, act]`. `act("edit", edit)` changes it by a function from `{shapes, steps}`
 * to another; with `goesOn`, until `act("done")`, it is one step of undo. While it differs from what runs, the browser
 * keeps it.
 */
export function useDraft(pipeline) {
  const key = `sightline.zones.${pipeline}`;
  const [draft, dispatch] = useReducer(reduced, null);
  const isDirty = draft !== null && (changeCount(draft) > 0 || draft.steps.length > 0);
  useEffect(() => {
    if (draft === null || draft.stable) return;
    try {
      if (isDirty) localStorage.setItem(key, JSON.stringify({ ...draft, past: [], future: [], at: Date.now() }));
      else localStorage.removeItem(key);
    } catch {
      // it holds until the page is left
    }
  }, [key, draft, isDirty]);
  const act = (type, given = {}) => dispatch({ type, ...given });
  return [draft, act, isDirty];
}

/** What the browser has kept of a draft of a pipeline, or null. */
export function keptDraft(pipeline) {
  try {
    const kept = JSON.parse(localStorage.getItem(`sightline.zones.${pipeline}`));
    return kept && Array.isArray(kept.base) && Array.isArray(kept.shapes) && Array.isArray(kept.steps) ? kept : null;
  } catch {
    return null; // not ours, or storage is forbidden
  }
}
