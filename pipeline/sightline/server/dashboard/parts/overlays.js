// Which overlays are drawn over live video: chosen once for all screens, and kept in the browser.

import { html, useKept } from "../lib.js";
import { t } from "../texts/index.js";
import { OVERLAYS } from "./player.js";

/** The overlays that are wanted, as the Player takes them, and how to change them: `[overlays, set]`. */
export function useOverlays() {
  const [chosen, setChosen] = useKept("overlays", OVERLAYS);
  return [{ ...OVERLAYS, ...chosen }, setChosen];
}

/** A button for each overlay. */
export const OverlayButtons = ({ overlays, onChange }) => html`
  <div class="bar overlays" role="group" aria-label=${t("wall.overlays")}>${Object.keys(OVERLAYS).map((name) => html`
    <button aria-pressed=${overlays[name]} onClick=${() => onChange({ ...overlays, [name]: !overlays[name] })}>${t(`wall.overlay_${name}`)}</button>`)}
  </div>`;
