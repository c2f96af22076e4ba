export const wall = {
  rate: "{rate} frames/s",
  screen: "Live",
  title: "Live",
};
