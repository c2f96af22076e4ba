export const fields = {
  byDefault: "by default",
  least: "The least is {value}.",
  most: "The most is {value}.",
  notDuration: "A duration is a number with a unit, such as 40ms, 2s or 5m.",
  notEither: "This is neither a number nor {words}.",
  notJson: "This is not JSON: texts need quotes, such as [\"car\"].",
  notNumber: "This is not a number.",
  notWhole: "This has to be a whole number.",
  reset: "Default",
};
