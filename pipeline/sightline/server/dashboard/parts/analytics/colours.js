// Colours of charts: kinds that colour-blind people tell apart too, and a scale whose steps look equal (inferno).

import { useEffect, useState } from "../../lib.js";

const LIGHT = ["#0a63a8", "#c2570c", "#0b7a5c", "#99457c", "#2e89c4", "#8a6d00", "#5b4bb3", "#5a6570"];
const DARK = ["#58a6e8", "#f09a4a", "#35c79d", "#dd93c0", "#9bd7f7", "#e4cf4d", "#a99df5", "#aab6c2"];
const INFERNO = ["#000004", "#1b0c41", "#4a0c6b", "#781c6d", "#a52c60", "#cf4446", "#ed6925", "#fb9b06", "#f7d13d", "#fcffa4"];

const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = () => {
  const chosen = document.documentElement.style.colorScheme;
  return (chosen === "dark" || chosen === "light" ? chosen : dark.matches ? "dark" : "light");
};

/** The colours of the page as it is, for canvases: `kinds` of things, `text`, `faint`, `line` and `panel`. */
export function useColours() {
  const [name, setName] = useState(scheme);
  useEffect(() => {
    const look = () => setName(scheme());
    const observer = new MutationObserver(look);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["style"] });
    dark.addEventListener("change", look);
    look();
    return () => {
      observer.disconnect();
      dark.removeEventListener("change", look);
    };
  }, []);
  return PAGES[name];
}

const PAGES = {
  light: { kinds: LIGHT, text: "#18222b", faint: "#51606d", line: "#d3dbe1", panel: "#ffffff" },
  dark: { kinds: DARK, text: "#e6edf3", faint: "#9aa9b7", line: "#2a3742", panel: "#171e25" },
};

const channels = INFERNO.map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** The colour of the scale at 0..1, as `[red, green, blue]`. */
export function heatColour(share) {
  const at = Math.min(Math.max(share, 0), 1) * (channels.length - 1);
  const low = Math.min(Math.floor(at), channels.length - 2);
  return channels[low].map((value, index) => Math.round(value + (channels[low + 1][index] - value) * (at - low)));
}

/** The scale as a CSS gradient, from left to right. */
export const HEAT_GRADIENT = `linear-gradient(to right, ${INFERNO.join(", ")})`;
