// What a JSON Schema says about a path of a configuration: the keys and values that may stand there.

const MOST = 60;

/**
 * What may be typed at a place (`contextAt` of yaml.js): `[{label, insert, detail, doc, isRequired}]`, the nearest first.
 */
export function suggestions(schema, context) {
  const here = alternativesAt(schema, context.path);
  const found = context.kind === "key" ? keysOf(schema, here, context) : valuesOf(here);
  if (context.kind === "key" && context.path.length && typeof context.path.at(-1) === "number") found.push(...valuesOf(here));
  const prefix = context.prefix.toLowerCase();
  const fits = [...new Map(found.reverse().map((one) => [one.label, one])).values()].reverse().filter(
    ({ label }) => label.toLowerCase().includes(prefix) && label !== context.prefix,
  );
  const order = ({ label, isRequired }) => (label.toLowerCase().startsWith(prefix) ? 0 : 2) + (isRequired ? 0 : 1);
  return fits.sort((one, other) => order(one) - order(other)).slice(0, MOST);
}

// All schemas that a value at a path may follow.
function alternativesAt(schema, path) {
  let here = flat(schema, schema);
  for (const part of path) {
    const below = here.flatMap((one) => {
      if (typeof part === "number") return [one.prefixItems?.[part] ?? one.items].filter(isSchema);
      return [one.properties?.[part] ?? one.additionalProperties].filter(isSchema);
    });
    here = below.flatMap((one) => flat(schema, one));
  }
  return here;
}

const isSchema = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

function flat(root, schema) {
  if (schema.$ref) {
    const { $ref, ...more } = schema;
    const target = $ref.replace("#/", "").split("/").reduce((value, part) => value?.[part], root);
    return target ? flat(root, { ...target, ...more }) : [];
  }
  const several = schema.anyOf ?? schema.oneOf;
  if (!several || schema.properties) return [schema];
  const { anyOf, oneOf, ...shared } = schema;
  return several.flatMap((one) => flat(root, "$ref" in one ? one : { ...shared, ...one }));
}

function keysOf(root, here, { siblings, isFlow, indent }) {
  const mappings = here.filter((one) => one.properties);
  const fitting = mappings.filter((one) => siblings.every((key) => key in one.properties || one.additionalProperties));
  const found = [];
  for (const one of fitting.length ? fitting : mappings) {
    if (siblings.length && one.maxProperties === 1) continue;
    for (const [label, option] of Object.entries(one.properties)) {
      if (siblings.includes(label)) continue;
      const below = flat(root, option);
      const isMapping = !isFlow && below.some((inner) => inner.properties || isSchema(inner.additionalProperties));
      const isList = !isFlow && below.some((inner) => inner.items?.$ref === "#/$defs/Step");
      const insert = isMapping ? `${label}:\n${" ".repeat(indent + 2)}` : isList ? `${label}:\n${" ".repeat(indent)}- ` : `${label}: `;
      found.push({
        label,
        insert,
        detail: typeText(root, option),
        doc: docOf(root, option),
        isRequired: one.required?.includes(label) ?? false,
      });
    }
  }
  return found;
}

function valuesOf(here) {
  const found = [];
  for (const one of here) {
    const doc = one.description ?? "";
    const values = one.enum ?? ("const" in one ? [one.const] : one.type === "boolean" ? [true, false] : (one.examples ?? []));
    for (const value of values) {
      if (isSchema(value) || Array.isArray(value) || value === null) continue;
      found.push({ label: String(value), insert: String(value), detail: value === one.default ? "default" : "", doc, isRequired: false });
    }
  }
  return found;
}

function docOf(root, option) {
  return option.description ?? flat(root, option).find((one) => one.description)?.description ?? "";
}

// The type of an option in a few words, with its default.
function typeText(root, option) {
  const kinds = new Set(flat(root, option).map(kindOf).filter(Boolean));
  const text = [...kinds].join(" or ");
  const preset = option.default;
  if (preset === undefined || preset === null || typeof preset === "object") return text;
  const shown = option.unit === "duration" ? durationText(preset) : String(preset);
  return `${text} = ${shown}`;
}

function kindOf(schema) {
  if (schema.type === "null" || schema.not) return "";
  if (schema.enum) return schema.enum.length > 5 ? "name" : schema.enum.join(" | ");
  if ("const" in schema) return String(schema.const);
  if (schema.unit) return schema.unit;
  if (schema.type === "array") return "list";
  if (schema.type === "object" || schema.properties) return "options";
  const least = schema.minimum ?? schema.exclusiveMinimum;
  const most = schema.maximum ?? schema.exclusiveMaximum;
  const limits = least !== undefined && most !== undefined ? ` ${least}–${most}` : "";
  return `${[schema.type].flat().filter((kind) => kind && kind !== "null").join(" or ")}${limits}`;
}

function durationText(value) {
  if (typeof value !== "number") return String(value);
  if (value === 0) return "0s";
  for (const [unit, size] of [["h", 3.6e12], ["m", 6e10], ["s", 1e9], ["ms", 1e6], ["us", 1e3]]) {
    if (value >= size && value % size === 0) return `${value / size}${unit}`;
  }
  return `${value}ns`;
}
