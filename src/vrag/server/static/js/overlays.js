/** Dialogs, toasts and notices. */

import { Problem } from "./api.js";
import { announce, h, icon, iconButton, replace } from "./elements.js";

/**
 * @typedef {object} DialogAction
 * @property {string} label
 * @property {any} [value] What the dialog resolves to.
 * @property {"primary" | "danger" | "plain"} [kind]
 * @property {() => boolean | Promise<boolean>} [check] False keeps the dialog open.
 */

/**
 * Asks, and resolves to the value of the chosen action; null when it was left by Escape, its cross or a click beside it.
 * @param {{title: string, body?: Node | string, actions?: DialogAction[]}} shown
 * @returns {Promise<any>}
 */
export function dialog({ title, body = "", actions = [{ label: "Close", value: null }] }) {
  return new Promise((resolve) => {
    /** @type {any} */
    let chosen = null;
    let checking = false;
    const heading = h("h2", { id: `dialog-${++opened}`, dir: "auto", text: title });
    const choose = async (/** @type {DialogAction} */ action) => {
      if (checking) return; // pressed twice
      checking = true;
      try {
        if (action.check && !(await action.check())) return;
      } finally {
        checking = false;
      }
      chosen = action.value ?? null;
      element.close();
    };
    const primary = actions.find((action) => action.kind === "primary");
    const form = h(
      "form",
      { on: { submit: (/** @type {Event} */ event) => { event.preventDefault(); if (primary) choose(primary); } } },
      h("header", heading, iconButton("close", "Close", { on: { click: () => element.close() } })),
      h("div", { class: "dialog-body" }, typeof body === "string" ? h("p", { dir: "auto", text: body }) : body),
      h("footer", actions.map((action) => actionButton(action, () => choose(action)))),
    );
    const element = /** @type {HTMLDialogElement} */ (h("dialog", { class: "dialog", "aria-labelledby": heading.id }, form));
    element.addEventListener("click", (event) => event.target === element && element.close());
    element.addEventListener("close", () => { element.remove(); resolve(chosen); });
    document.body.append(element);
    element.showModal();
    const first = /** @type {HTMLElement | null} */ (element.querySelector(".dialog-body input, footer button"));
    first?.focus();
    if (first instanceof HTMLInputElement) first.setSelectionRange(0, first.value.length, "backward"); // so that its start is seen
  });
}

let opened = 0;

/** @param {DialogAction} action @param {() => void} choose */
function actionButton(action, choose) {
  const submits = action.kind === "primary";
  const on = submits ? {} : { click: choose };
  return h("button", { type: submits ? "submit" : "button", class: action.kind ?? "plain", on, text: action.label });
}

/** @type {HTMLElement | null} */
let stack = null;

/**
 * Shows a notice for some seconds; a failure stays until it is closed, or until the same one is shown again.
 * @param {string} text
 * @param {{kind?: "note" | "ok" | "danger", hint?: string, action?: {label: string, run: () => void}}} [how]
 */
export function toast(text, { kind = "note", hint = "", action } = {}) {
  stack ??= document.body.appendChild(h("div", { id: "toasts", popover: "manual", role: "region", "aria-label": "Notices" }));
  const close = () => {
    card.remove();
    if (stack?.childElementCount === 0) stack.hidePopover();
  };
  const card = h(
    "div",
    { class: `toast ${kind}`, dataset: { kind, text } },
    icon(kind === "danger" ? "warn" : kind === "ok" ? "check" : "dot"),
    h("div", h("p", { dir: "auto", text }), hint && h("p", { class: "soft", dir: "auto", text: hint })),
    action && h("button", { type: "button", class: "quiet", text: action.label, on: { click: () => { close(); action.run(); } } }),
    iconButton("close", "Dismiss", { on: { click: close } }),
  );
  if (kind === "danger" && !action) [...stack.children].find((other) => other instanceof HTMLElement && other.dataset.text === text)?.remove();
  stack.append(card);
  if (stack.matches(":popover-open")) stack.hidePopover();
  stack.showPopover(); // anew, so that it stands above a dialog
  announce(hint ? `${text} ${hint}` : text);
  if (kind !== "danger") setTimeout(close, 6000);
}

/**
 * Does something, and shows why it failed. A session that ended has its own page.
 * @param {() => Promise<unknown>} act
 * @returns {Promise<boolean>} Whether it was done.
 */
export async function attempt(act) {
  try {
    await act();
    return true;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast(error.detail, { kind: "danger", hint: error.hint });
    return false;
  }
}

/**
 * A notice in the flow of the page: what went wrong, what to do, and a way out.
 * @param {{title: string, hint?: string, icon?: string, actions?: Node[], id?: string, level?: "h1" | "h2"}} content
 *   `level`: of its heading; h1 where it is all that the page shows.
 */
function notice({ title, hint = "", icon: name = "warn", actions = [], id, level = "h2" }) {
  return h(
    "section",
    { class: "notice", role: "group", id },
    h("span", { class: "notice-sign" }, icon(name)),
    h(level, { dir: "auto", text: title }),
    hint && h("p", { class: "soft", dir: "auto", text: hint }),
    actions.length > 0 && h("div", { class: "row" }, actions),
  );
}

/**
 * Replaces the content of an element with a notice.
 * @param {Element} parent
 * @param {Parameters<typeof notice>[0]} content
 */
export function showNotice(parent, content) {
  replace(parent, notice(content));
  announce(content.title);
}
