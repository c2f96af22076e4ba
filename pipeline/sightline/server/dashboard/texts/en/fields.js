export const fields = {
  byDefault: "by default",
  notJson: "This is not JSON: texts need quotes, such as [\"car\"].",
  reset: "Default",
};
