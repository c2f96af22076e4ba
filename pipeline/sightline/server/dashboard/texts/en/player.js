export const player = {
  connecting: "Connecting",
  label: "Live video of {stream}",
  lost: "No connection; trying again",
  refused: "Not available; trying again",
  waiting: "Waiting for frames",
};
