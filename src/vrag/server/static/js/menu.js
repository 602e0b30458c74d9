/** Menus of actions and of links. */

import { h, icon } from "./elements.js";

/** @typedef {{label: string, sign: string, danger?: boolean, run: () => void}} MenuItem */

/**
 * Opens a menu of actions at its button, which can be used by arrow keys, Home, End and Escape. An item that was chosen closes it first.
 * @param {HTMLElement} button Has an id: while the menu is open it may be drawn again.
 * @param {string} name
 * @param {MenuItem[]} items
 */
export function openMenu(button, name, items) {
  const current = () => document.getElementById(button.id);
  const close = () => menu.isConnected && menu.hidePopover();
  const buttons = items.map(({ label, sign, danger, run }) =>
    h("button", { type: "button", role: "menuitem", tabindex: -1, class: danger ? "quiet danger" : "quiet", on: { click: () => { close(); run(); } } }, icon(sign), label),
  );
  const menu = h("div", { class: "popup-menu", popover: "auto", role: "menu", "aria-label": name }, buttons);
  const go = (/** @type {number} */ at) => buttons[(at + buttons.length) % buttons.length].focus();
  menu.addEventListener("keydown", (event) => {
    const at = buttons.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    const moves = /** @type {Record<string, () => void>} */ ({
      ArrowDown: () => go(at + 1),
      ArrowUp: () => go(at < 0 ? -1 : at - 1),
      Home: () => go(0),
      End: () => go(-1),
      Escape: close,
      Tab: close,
    });
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation(); // Escape closes the menu and nothing else
    moves[event.key]();
  });
  menu.addEventListener("toggle", (event) => {
    const open = /** @type {ToggleEvent} */ (event).newState === "open";
    current()?.setAttribute("aria-expanded", String(open));
    if (open) return;
    if (menu.contains(document.activeElement) || document.activeElement === document.body) current()?.focus();
    menu.remove();
  });
  document.body.append(menu);
  menu.showPopover();
  place(menu, button.getBoundingClientRect());
  go(0);
}

/** Below its button, or above it where there is no room. @param {HTMLElement} menu @param {DOMRect} at */
function place(menu, at) {
  const { width, height } = menu.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.right - width, innerWidth - width - 8));
  const top = at.bottom + height + 8 <= innerHeight ? at.bottom + 2 : Math.max(8, at.top - height - 2);
  menu.style.setProperty("left", `${left}px`);
  menu.style.setProperty("top", `${top}px`);
}

/**
 * A button that folds out a list of links. It folds in where a link is chosen, the focus leaves it, or Escape is pressed.
 * @param {import("./elements.js").Props} props
 * @param {HTMLElement} button A `summary`.
 * @param {HTMLElement} list
 * @returns {HTMLElement}
 */
export function linkMenu({ class: more = "", ...props }, button, list) {
  list.classList.add("menu-list", "card");
  const menu = h("details", { class: `menu ${more}`, ...props }, button, list);
  const close = () => menu.removeAttribute("open");
  menu.addEventListener("click", (event) => /** @type {Element} */ (event.target).closest("a") && close());
  menu.addEventListener("focusout", (event) => !menu.contains(/** @type {Node | null} */ (event.relatedTarget)) && setTimeout(() => !menu.contains(document.activeElement) && close(), 150));
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.hasAttribute("open")) return;
    event.stopPropagation(); // Escape closes the menu and nothing else
    close();
    button.focus();
  });
  return menu;
}
