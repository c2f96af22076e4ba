// The editor of lines and zones: drawn over the live image of a stream, saved to the running pipeline and to its file.

import { ask, change, path, tagOf, useRead, useStatus } from "../api.js";
import { timeOfDay } from "../format.js";
import { html, styles, useEffect, useKept, useMemo, useRef, useState } from "../lib.js";
import { Empty, ErrorBox, Loading, Panel } from "../parts/basic.js";
import { changeCount, draftOf, isChanged, keptDraft, newId, useDraft } from "../parts/draft.js";
import { Drawing, canFinish } from "../parts/drawing.js";
import { cut, faults, middle } from "../parts/geometry.js";
import { NewStepDialog, placeForStep, withModel } from "../parts/new-step.js";
import { attempt, notify } from "../parts/notices.js";
import { Player } from "../parts/player.js";
import { RuleForm, RuleList, countsText, optionFaults } from "../parts/rule-panel.js";
import { Conflicts, emptiedSteps, saveDraft } from "../parts/saving.js";
import { ShapeLayer } from "../parts/shape-layer.js";
import { countInside, drawingOf, freeName, pointsOf, withPoints, worksOn } from "../parts/shapes.js";
import { go, href } from "../router.js";
import { useMay } from "../session.js";
import { t } from "../texts/index.js";

await styles("screens/zones.css");

const COLORS = ["#4cc9f0", "#f7b32b", "#7ae582", "#ff8fab", "#c8a2ff", "#ffd166", "#5eead4", "#ff9f68"];
const COUNTS_EVERY_MS = 1000;
const PIPELINES_EVERY_MS = 5000; // as the frame asks

export default function Zones({ pipeline, rest }) {
  const status = useStatus(pipeline);
  const rules = useRead(path(pipeline, "rules"), COUNTS_EVERY_MS);
  const elements = useRead(path(pipeline, "elements"));
  const kinds = useRead(path(pipeline, "rule-kinds"));
  const error = [rules, elements, kinds].find((one) => !one.data && one.error)?.error;
  useEffect(() => {
    if (elements.tag && rules.tag !== elements.tag) elements.refresh();
  }, [rules.tag]);
  if (error) return html`<${ErrorBox} error=${error} />`;
  if (!status.data || !rules.data || !elements.data || !kinds.data) return html`<${Loading} />`;
  const streams = status.data.streams;
  const stream = streams.find((one) => one.name === rest[0]) ?? streams[0];
  if (!stream) return html`<h1 class="title">${t("zones.title")}</h1><${Empty}>${t("zones.noStreams")}</${Empty}>`;
  return html`<${Editor} key=${pipeline} pipeline=${pipeline} stream=${stream} streams=${streams} rules=${rules}
    elements=${elements.data} kinds=${kinds.data} />`;
}

function Editor({ pipeline, stream, streams, rules, elements, kinds }) {
  const [draft, act, isDirty] = useDraft(pipeline);
  const [{ chosen, point }, setChosen] = useState({ chosen: null, point: null });
  const [drawing, setDrawing] = useState(null);
  const [asked, setAsked] = useState(null); // the kind of a step that is to be added
  const [busy, setBusy] = useState("");
  const [failure, setFailure] = useState(null);
  const [said, setSaid] = useState("");
  const [revision, setRevision] = useState(0); // another one when values were changed outside of their fields
  const [found, setFound] = useState({ objects: [] }); // on the frame that is shown
  const [hasBoxes, setBoxes] = useKept("zones.boxes", true);
  const [keptAt, setKeptAt] = useState(0);
  const place = useRef();
  const pressed = useRef();
  const busyRef = useRef("");
  busyRef.current = busy;
  const isOperator = useMay("operator");
  const canEdit = isOperator && !busy; // what is edited while it is saved would be lost
  const isAdmin = useMay("admin");

  useEffect(() => {
    const kept = keptDraft(pipeline);
    if (kept && isOperator) {
      act("open", { draft: { ...kept, past: [], future: [], stable: null } });
      act("rebase", { rules: rules.data, etag: rules.tag });
      setKeptAt(kept.at / 1000);
    } else act("open", { draft: draftOf(rules.data, rules.tag) });
  }, [pipeline]);
  useEffect(() => {
    if (draft && draft.etag !== rules.tag && !busyRef.current) act("rebase", { rules: rules.data, etag: rules.tag });
  }, [rules.data, rules.tag, busy]);

  useEffect(() => {
    const press = (event) => pressed.current?.(event); // a button that has gone leaves the focus to the page
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  }, []);

  const steps = useMemo(() => stepsOf(elements, kinds, draft?.steps ?? []), [elements, kinds, draft?.steps]);
  if (!draft) return html`<${Loading} />`;

  const sizeFor = (step) => (step.isPixels ? stream.size : null);
  const stepOf = (key) => steps.find((one) => one.key === key);
  const drawn = draft.shapes.flatMap((shape, number) => {
    const step = stepOf(shape.element);
    if (!step?.drawing || !worksOn(step.streams, stream.name) || (step.isPixels && !stream.size)) return [];
    const points = pointsOf(shape.options, step.drawing, sizeFor(step));
    if (points.length === 0) return []; // a rule of the whole frame
    const before = draft.base.find((one) => one.id === shape.id);
    const running = before && rules.data.find((one) => one.element === before.element && one.name === before.name);
    return [{
      ...shape,
      points,
      outline: step.drawing.outline,
      color: COLORS[number % COLORS.length],
      faults: [...nameFaults(shape, draft.shapes, step), ...faults(points, step.drawing.outline), ...optionFaults(shape.options, step.drawing)],
      isChanged: isChanged(draft, shape),
      counts: countsOf({ points, options: shape.options }, step, running?.counts[stream.name], isChanged(draft, shape), found),
    }];
  });
  const shape = drawn.find((one) => one.id === chosen);
  const wrong = drawn.find((one) => one.faults.some(({ kind }) => kind === "bad"));
  const choose = (id, number) => setChosen({ chosen: id, point: number });
  const taken = (element) => draft.shapes.filter((one) => one.element === element).map((one) => one.name);

  const elsewhere = (type, given) => {
    act(type, given);
    setRevision(revision + 1);
  };
  const edit = (change, goesOn = false) => act("edit", { edit: change, goesOn });
  const put = ({ id, element, name, options }, goesOn) =>
    edit(({ shapes, steps: own }) => ({ shapes: shapes.map((one) => (one.id === id ? { id, element, name, options } : one)), steps: own }), goesOn);
  const setPoints = (points, goesOn) => {
    const step = stepOf(shape.element);
    put({ ...shape, options: withPoints(shape.options, step.drawing, points, sizeFor(step)) }, goesOn);
  };
  const add = (made, instead = null) => {
    edit(({ shapes, steps: own }) => ({ shapes: [...shapes.filter((one) => one.id !== instead), ...made], steps: own }));
    choose(made.at(-1).id, null);
  };

  const begin = (outline) => {
    const fits = plainFirst(kinds.filter((one) => one.outline === outline));
    const [step] = plainFirst(steps.filter((one) => one.drawing?.outline === outline && worksOn(one.streams, stream.name)));
    if (step) setDrawing({ what: outline, points: [], element: step.key });
    else if (isAdmin) setAsked(fits[0]);
    else notify(t("zones.newStepNeedsAdmin", { kind: fits[0].kind, stream: stream.name }), "warn");
  };
  const beginOn = (step) => {
    setAsked(null);
    edit(({ shapes, steps: own }) => ({ shapes, steps: [...own.filter((one) => one.key !== step.key), step] }));
    setDrawing({ what: kinds.find((one) => one.kind === step.kind).outline, points: [], element: step.key });
  };
  const setModel = (model) => edit(({ shapes, steps: own }) => ({ shapes, steps: own.map((one) => (one.key === shape.element ? withModel(one, model) : one)) }), true);
  const finish = (points) => {
    setDrawing(null);
    setSaid("");
    if (drawing.what === "cut") return split(points);
    const step = stepOf(drawing.element);
    const name = freeName(drawing.what, taken(step.key));
    add([{ id: newId(), element: step.key, name, options: withPoints({}, step.drawing, points, sizeFor(step)) }]);
    setTimeout(() => document.getElementById("rule-name")?.select());
    return undefined;
  };
  const split = (segment) => {
    const parts = shape && cut(shape.points, segment);
    if (!parts) return notify(t("zones.cutFails"), "warn");
    const step = stepOf(shape.element);
    const names = taken(shape.element);
    const made = parts.map((points, number) => {
      const name = number === 0 ? shape.name : freeName(shape.name, names);
      names.push(name);
      return { id: number === 0 ? shape.id : newId(), element: shape.element, name, options: withPoints(shape.options, step.drawing, points, sizeFor(step)) };
    });
    return add(made, shape.id);
  };
  const duplicate = () => {
    const step = stepOf(shape.element);
    const points = shape.points.map(([x, y]) => [x > 0.97 ? x - 0.03 : x + 0.03, y > 0.97 ? y - 0.03 : y + 0.03]);
    add([{ id: newId(), element: shape.element, name: freeName(shape.name, taken(shape.element)), options: withPoints(shape.options, step.drawing, points, sizeFor(step)) }]);
  };
  const remove = () => {
    edit(({ shapes, steps: own }) => ({ shapes: shapes.filter((one) => one.id !== chosen), steps: own }));
    choose(null, null);
  };
  const removePoint = () => {
    if (shape.outline !== "zone" || shape.points.length <= 3) return setSaid(t(shape.outline === "zone" ? "zones.faultThreePoints" : "zones.faultTwoPoints"));
    setPoints(shape.points.toSpliced(point, 1));
    return choose(chosen, null);
  };
  const addPoint = () => {
    const next = middle(shape.points[point], shape.points[(point + 1) % shape.points.length]);
    setPoints(shape.points.toSpliced(point + 1, 0, next));
    choose(chosen, point + 1);
  };

  const save = async () => {
    setBusy("save");
    setFailure(null);
    try {
      const isOther = await saveDraft(pipeline, draft);
      const answer = await ask(path(pipeline, "rules"));
      const now = { rules: await answer.json(), etag: tagOf(answer) };
      if (isOther) act("open", { draft: draftOf(now.rules, now.etag) });
      else act("saved", now);
      setKeptAt(0);
      notify(t("zones.saved"));
    } catch (error) {
      if (error.status === 412) notify(t("zones.stale"), "warn");
      else setFailure(error.status === 409 ? { ...error, message: t("zones.reverted", { reason: error.message }), problem: error.problem } : error);
    }
    await rules.refresh();
    setBusy("");
  };
  const discard = () => {
    act("open", { draft: draftOf(rules.data, rules.tag) });
    choose(null, null);
    setFailure(null);
    setKeptAt(0);
  };
  const keys = (event) => {
    const isHere = event.target === document.body || place.current?.contains(event.target);
    if (!isHere || event.target.closest("input, select, textarea, dialog")) return;
    const isCommand = event.ctrlKey || event.metaKey;
    if (busy && isCommand) return;
    if (isCommand && event.key.toLowerCase() === "z") elsewhere(event.shiftKey ? "redo" : "undo");
    else if (isCommand && event.key.toLowerCase() === "y") elsewhere("redo");
    else if (event.key === "Escape" && shape) choose(point === null ? null : chosen, null);
    else if ((event.key === "Delete" || event.key === "Backspace") && shape && canEdit) {
      if (point === null) remove();
      else removePoint();
    } else if ((event.key === "Insert" || event.key === "+") && shape?.outline === "zone" && point !== null && canEdit) addPoint();
    else return;
    event.preventDefault();
  };
  pressed.current = keys;

  const drawingFaults = drawing?.what === "zone" && drawing.points.length >= 3 ? faults(drawing.points, "zone") : [];
  return html`<section class="zones-editor" ref=${place} aria-label=${t("zones.title")}>
    <div class="zones-head">
      <h1 class="title">${t("zones.title")}</h1>
      <label>${t("zones.stream")}<select value=${stream.name} onChange=${(event) => go(href(pipeline, "zones", [event.target.value]))}>
        ${streams.map(({ name }) => html`<option value=${name}>${name}</option>`)}</select></label>
      ${isOperator && html`<${SaveBar} pipeline=${pipeline} draft=${draft} isDirty=${isDirty} busy=${busy} isDrawing=${Boolean(drawing)} wrong=${wrong} isAdmin=${isAdmin}
        onSave=${save} onDiscard=${discard} />`}
    </div>
    ${keptAt > 0 && isDirty && html`<p class="alarm warn conflict" role="status"><span>${t("zones.kept", { time: timeOfDay(keptAt) })}</span>
      <button onClick=${() => setKeptAt(0)}>${t("zones.keptGoOn")}</button>
      <button onClick=${discard}>${t("zones.discard")}</button></p>`}
    <${Conflicts} draft=${draft} onSettle=${(one) => elsewhere("settle", one)} />
    <${ErrorBox} error=${failure} />
    <div class="zones">
      <div>
        ${isOperator && html`<div class="bar" role="group" aria-label=${t("zones.tools")}>
          ${kinds.some((one) => one.outline === "zone") && html`<button onClick=${() => begin("zone")} disabled=${Boolean(drawing || busy)}>${t("zones.newZone")}</button>`}
          ${kinds.some((one) => one.outline === "line") && html`<button onClick=${() => begin("line")} disabled=${Boolean(drawing || busy)}>${t("zones.newLine")}</button>`}
          <button onClick=${() => elsewhere("undo")} disabled=${draft.past.length === 0 || Boolean(drawing || busy)}>${t("zones.undo")}</button>
          <button onClick=${() => elsewhere("redo")} disabled=${draft.future.length === 0 || Boolean(drawing || busy)}>${t("zones.redo")}</button>
          <button aria-pressed=${hasBoxes ? "true" : "false"} onClick=${() => setBoxes(!hasBoxes)}>${t("zones.boxes")}</button>
        </div>`}
        <${Stage} pipeline=${pipeline} stream=${stream} hasBoxes=${hasBoxes} onFound=${setFound}>
          <${ShapeLayer} shapes=${drawn} chosen=${chosen} point=${point} label=${t("zones.layer", { stream: stream.name })} isFixed=${!canEdit}
            onChoose=${choose} onPoints=${setPoints} onDone=${() => act("done")} onCancel=${() => act("cancel")}>
            ${drawing && ((px, reach, svg) => html`<${Drawing} drawing=${drawing} px=${px} reach=${reach} svg=${svg} targets=${drawn.flatMap((one) => one.points)}
              onPoints=${(points) => setDrawing({ ...drawing, points })} onFinish=${finish} onCancel=${() => setDrawing(null)} onTell=${setSaid} />`)}
          </${ShapeLayer}>
        </${Stage}>
        <div class="stage-foot">
          <p id="zones-hint" class="faint">${hintOf(drawing, shape, isOperator)}</p>
          ${drawing && html`<button class="main" disabled=${!canFinish(drawing)} onClick=${() => finish(drawing.points)}>${t("zones.drawFinish")}</button>
            <button onClick=${() => setDrawing(null)}>${t("zones.drawCancel")}</button>`}
        </div>
        ${drawingFaults.map((one) => html`<p class=${`small ${one.kind}`} role="alert">${t(one.text, one.values)}</p>`)}
        <p class="hidden" role="status" aria-live="polite">${said}</p>
      </div>
      <div class="zones-side">
        <${Panel} title=${t("zones.title")}>
          ${drawn.length === 0 && html`<${Empty}>${t("zones.noRules", { stream: stream.name })} ${isOperator && t("zones.addFirst")}</${Empty}>`}
          <${RuleList} steps=${steps} shapes=${drawn} chosen=${chosen} onChoose=${choose} />
        </${Panel}>
        ${shape && html`<${RuleForm} shape=${shape} steps=${steps.filter((one) => worksOn(one.streams, stream.name))} step=${stepOf(shape.element)} taken=${taken}
          size=${sizeFor(stepOf(shape.element))} revision=${revision} isDisabled=${!canEdit} onShape=${put} onDone=${() => act("done")} onModel=${setModel}>
          ${isOperator && html`
            <button onClick=${duplicate} disabled=${!canEdit}>${t("zones.copy")}</button>
            ${shape.outline === "zone" && html`<button onClick=${() => setDrawing({ what: "cut", points: [] })} disabled=${!canEdit}>${t("zones.cut")}</button>`}
            ${shape.outline === "line" && html`<button onClick=${() => setPoints(shape.points.toReversed())} disabled=${!canEdit}>${t("zones.turn")}</button>`}
            ${shape.outline === "zone" && point !== null && html`<button onClick=${addPoint} disabled=${!canEdit}>${t("zones.addPoint")}</button>
              <button onClick=${removePoint} disabled=${!canEdit || shape.points.length <= 3}>${t("zones.removePoint")}</button>`}
            <button class="danger" onClick=${remove} disabled=${!canEdit}>${t("zones.remove")}</button>`}
        </${RuleForm}>`}
      </div>
    </div>
    ${asked && html`<${NewStepDialog} kind=${asked} place=${placeForStep(elements, kinds, stream.name)} stream=${stream.name}
      hasOtherStreams=${streams.length > 1} onStep=${beginOn} onClose=${() => setAsked(null)} />`}
  </section>`;
}

// Several kinds of rules may be drawn alike: a new line or zone is a plain one, unless only others are there.
function plainFirst(all) {
  const isPlain = (one) => one.kind === "lines" || one.kind === "zones";
  return [...all.filter(isPlain), ...all.filter((one) => !isPlain(one))];
}

// Steps that hold rules which are drawn, those to be added last.
function stepsOf(elements, kinds, added) {
  const kindOf = (name) => kinds.find((one) => one.kind === name);
  const present = elements.filter((one) => kindOf(one.element)).map((one) => ({
    key: one.id,
    kind: one.element,
    drawing: drawingOf({ outline: kindOf(one.element).outline, json_schema: one.json_schema }),
    streams: one.options.streams,
    isPixels: one.options.pixels === true,
    labels: one.labels,
    isNew: false,
  }));
  const labelsAt = (id) => elements.find((one) => one.id === id)?.labels ?? null;
  return [...present, ...added.map((one) => ({
    key: one.key,
    kind: one.kind,
    drawing: drawingOf(kindOf(one.kind)),
    streams: one.options.streams,
    isPixels: false,
    model: one.before.find((step) => step.detect)?.detect.model,
    labels: one.before.length ? null : labelsAt(one.after),
    isNew: true,
  }))];
}

// What runs counts by itself; what is being edited shows what would be inside now.
function countsOf(shape, step, counts, isEdited, found) {
  if (!isEdited) return countsText(counts);
  return step.drawing.outline === "zone" ? t("zones.insideNow", { count: countInside(shape, found) }) : "";
}

function nameFaults(shape, all, step) {
  const bad = (text) => [{ kind: "bad", text, values: { name: shape.name } }];
  if (!shape.name) return bad("zones.faultNameEmpty");
  if (shape.name in step.drawing.element.properties) return bad("zones.faultNameOption");
  return all.some((one) => one.id !== shape.id && one.element === shape.element && one.name === shape.name) ? bad("zones.faultName") : [];
}

function hintOf(drawing, shape, isOperator) {
  if (!isOperator) return t("zones.hintViewer");
  if (!drawing) return t("zones.hint");
  if (drawing.what === "cut") return t("zones.cutHint", { name: shape?.name ?? "" });
  return t(drawing.what === "zone" ? "zones.drawZone" : "zones.drawLine");
}

function SaveBar({ pipeline, draft, isDirty, busy, isDrawing, wrong, isAdmin, onSave, onDiscard }) {
  const pipelines = useRead("pipelines", PIPELINES_EVERY_MS);
  const isOfFile = pipelines.data?.find((one) => one.name === pipeline)?.saved ?? true;
  const count = changeCount(draft);
  const emptied = isAdmin ? [] : emptiedSteps(draft);
  const why = wrong ? t("zones.wrong", { what: t("zones.undoneFault", { name: wrong.name, fault: faultText(wrong) }) })
    : emptied.length ? t("zones.lastOne", { element: emptied[0] }) : "";
  const write = async () => {
    const done = await attempt(() => change("POST", path(pipeline, "configuration", "save")));
    if (done) notify(t(done.written ? "zones.written" : "zones.nothingToWrite"));
    pipelines.refresh();
  };
  if (!isDirty && isOfFile) return null;
  return html`<div class="save-bar">
    <span>${isDirty ? (count === 1 ? t("zones.changedOne") : t("zones.changed", { count })) : t("zones.notInFile")}${why && html` <span class="bad small">${why}</span>`}</span>
    ${isDirty && html`<button onClick=${onDiscard} disabled=${Boolean(busy)}>${t("zones.discard")}</button>
      <button class="main" onClick=${onSave} disabled=${Boolean(busy || isDrawing || why) || draft.conflicts.length > 0}>${busy ? t("zones.saving") : t("zones.save")}</button>`}
    ${!isDirty && html`<button class="main" onClick=${write} disabled=${!isAdmin} title=${isAdmin ? "" : t("zones.admin")}>${t("zones.write")}</button>`}
  </div>`;
}

const faultText = (shape) => {
  const { text, values } = shape.faults.find(({ kind }) => kind === "bad");
  return t(text, values);
};

// The live image of the stream, in its own shape, with the layer exactly above it.
function Stage({ pipeline, stream, hasBoxes, onFound, children }) {
  const overlays = { boxes: hasBoxes, labels: hasBoxes, tracks: hasBoxes, masks: false, zones: false, counts: false }; // zones are ours
  const [width, height] = stream.size ?? [16, 9];
  return html`<div class="stage" style=${{ aspectRatio: `${width} / ${height}` }}>
    <${Player} key=${stream.name} pipeline=${pipeline} stream=${stream.name} overlays=${overlays} onState=${onFound}>${children}</${Player}>
  </div>`;
}
