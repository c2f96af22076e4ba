// A rule needs a step that holds it: which one is added, where, and what has to come with it.

import { Dialog } from "./basic.js";
import { html, useState } from "../lib.js";
import { worksOn } from "./shapes.js";
import { t } from "../texts/index.js";

const FINDERS = new Set(["detect", "segment", "pose", "infer", "replay"]);

/**
 * Where a step of a kind goes for a stream: `{after, before, needsModel}`. It follows the tracker, or the rules behind it;
 * `before` are the steps that lack, and `after` null stands for the beginning.
 */
export function placeForStep(elements, kinds, stream) {
  const own = elements.filter((one) => worksOn(one.options.streams, stream));
  const holdsTracks = (one) => one.element === "track" || kinds.some(({ kind }) => kind === one.element);
  const tracks = own.findLast(holdsTracks);
  if (tracks) return { after: tracks.id, before: [], needsModel: false };
  const finder = own.findLast((one) => FINDERS.has(one.element));
  if (finder) return { after: finder.id, before: ["track"], needsModel: false };
  return { after: null, before: ["track"], needsModel: true };
}

/** A step to add whose detector has another model. */
export const withModel = (step, model) => ({
  ...step, before: step.before.map((one) => (one.detect ? { detect: { ...one.detect, model } } : one)),
});

/** The model that finds the objects. */
export const Model = ({ value, onModel, ...handlers }) => html`<div class="option"><label class="option-name" for="new-model">${t("zones.model")}</label>
  <input id="new-model" required value=${value} onInput=${(event) => onModel(event.target.value)} ...${handlers} autocomplete="off" aria-describedby="new-model-help" />
  <p class="prose" id="new-model-help">${t("zones.modelHelp")}</p></div>`;

/** Asks how a step is to be added; `onStep` gets it as a draft holds it. */
export function NewStepDialog({ kind, place, stream, hasOtherStreams, onStep, onClose }) {
  const [isOnly, setOnly] = useState(false);
  const [model, setModel] = useState("");
  const names = [...(place.needsModel ? ["detect"] : []), ...place.before, kind.kind].join(", ");
  const add = (event) => {
    event.preventDefault();
    const only = isOnly ? { streams: [stream] } : {};
    const finder = place.needsModel ? [{ detect: { ...only, model: model.trim() } }] : [];
    const before = [...finder, ...place.before.map((name) => (isOnly ? { [name]: only } : name))];
    onStep({ key: `new ${kind.kind}`, kind: kind.kind, after: place.after, before, options: only });
  };
  return html`<${Dialog} title=${t("zones.newStep")} onClose=${onClose}>
    <form class="new-step" onSubmit=${add}>
      <p>${place.after === null
        ? t("zones.newStepFirst", { steps: names, stream })
        : t("zones.newStepAfter", { kind: kind.kind, steps: names, stream, after: place.after })}</p>
      <p class="faint small">${kind.purpose}</p>
      ${place.needsModel && html`<${Model} value=${model} onModel=${setModel} />`}
      ${hasOtherStreams && html`<label class="line"><input type="checkbox" checked=${isOnly} onChange=${(event) => setOnly(event.target.checked)} />
        ${t("zones.newStepOnly", { stream })}</label>`}
      <div class="bar"><button class="main">${t("zones.newStepStart")}</button><button type="button" onClick=${onClose}>${t("zones.drawCancel")}</button></div>
    </form>
  </${Dialog}>`;
}
