export const records = {
  cleared: "{rule} is no longer crowded ({occupancy} inside)",
  crowded: "{rule} is crowded: {occupancy} inside",
  dwell: "{label} has been in {rule} for {dwell}",
  enter: "{label} entered {rule}",
  leave: "{label} left {rule} after {dwell}",
  lineIn: "{label} crossed {rule} in",
  lineOut: "{label} crossed {rule} out",
  object: "object",
  other: "{kind}: {rule}",
};
