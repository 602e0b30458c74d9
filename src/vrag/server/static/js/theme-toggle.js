/** Light, dark, or as the device is; theme.js applies the choice before the first paint. */

import { h, icon } from "./dom.js";

const KEPT = "vrag.theme";
const THEMES = /** @type {const} */ ([["device", "As the device", "device"], ["light", "Light", "sun"], ["dark", "Dark", "moon"]]);

/** @returns {HTMLElement} */
export function themeToggle() {
  const kept = document.documentElement.dataset.theme ?? "device";
  const choose = (/** @type {string} */ name) => {
    if (name === "device") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEPT);
    } else {
      document.documentElement.dataset.theme = name;
      localStorage.setItem(KEPT, name);
    }
  };
  return h(
    "div",
    { class: "theme", role: "radiogroup", "aria-label": "Theme" },
    THEMES.map(([name, label, sign]) =>
      h("label", { title: label }, h("input", { type: "radio", name: "theme", value: name, checked: name === kept, "aria-label": label, on: { change: () => choose(name) } }), icon(sign)),
    ),
  );
}
