/** The chosen documents within the question box: each can be taken out, and all at once. */

import { nameOf } from "./chosen.js";
import { announce, h, icon, replace } from "./dom.js";
import { plainName } from "./file-names.js";
import { counted } from "./run-options.js";

const FEW = 6;
/** Documents of a run that are named. */
const NAMED = 3;

/** @typedef {import("./chosen.js").ChosenDocuments} ChosenDocuments */

/**
 * @param {ChosenDocuments} chosen
 * @param {() => void} changed Called after each change.
 * @returns {{element: HTMLElement, show: () => void}}
 */
export function chosenTray(chosen, changed) {
  const element = h("div", { class: "chosen", id: "chosen", role: "group", "aria-label": "Documents that are asked", hidden: true });
  let isOpen = false;
  let shown = "";
  const show = () => {
    const mark = JSON.stringify([chosen.list, isOpen]);
    if (mark === shown) return;
    shown = mark;
    const had = element.contains(document.activeElement);
    element.hidden = chosen.list.length === 0;
    const list = isOpen ? chosen.list : chosen.list.slice(0, FEW);
    const left = chosen.list.length - list.length;
    replace(
      element,
      h("span", { class: "chosen-label size-1 faint", text: `Only ${counted(chosen.list.length, "document")}:` }),
      h("ul", { class: "chosen-list" }, list.map((one) => h("li", chip(one))), left > 0 && h("li", h("button", { type: "button", class: "chip", text: `${left.toLocaleString("en")} more`, on: { click: () => { isOpen = true; show(); } } }))),
      h("button", { type: "button", class: "link size-1", id: "clear-chosen", text: "Ask all documents", on: { click: () => set([]) } }),
    );
    if (had) /** @type {HTMLElement | null} */ (element.querySelector("button") ?? element.parentElement?.querySelector("textarea"))?.focus();
  };
  const set = (/** @type {import("./chosen.js").ChosenDocument[]} */ list) => {
    chosen.set(list);
    announce(list.length > 0 ? `${counted(list.length, "document")} chosen` : "All documents are asked");
    changed();
    if (list.length === 0) /** @type {HTMLElement | null} */ (element.parentElement?.querySelector("textarea"))?.focus();
  };
  const chip = (/** @type {import("./chosen.js").ChosenDocument} */ one) => {
    const label = h("span", { class: "clip", dir: "auto" });
    const button = h("button", { type: "button", class: "chip accent", on: { click: () => set(chosen.list.filter((other) => other.id !== one.id)) } }, label, icon("close"));
    const tell = (/** @type {string} */ name) => {
      label.textContent = plainName({ name }) || "a removed document";
      button.title = `Leave out ${label.textContent}`;
      button.setAttribute("aria-label", button.title);
    };
    if (one.name) tell(one.name);
    else nameOf(one.id).then(tell);
    return button;
  };
  chosen.changed = changed;
  return { element, show };
}

/**
 * What tells, among the facts of a run, that only some documents were asked.
 * @param {string[]} ids
 */
export function chosenFact(ids) {
  const fact = h("span", { class: "only-documents", dir: "auto", text: `only ${counted(ids.length, "document")}` });
  Promise.all(ids.slice(0, NAMED).map(nameOf)).then((names) => {
    const left = ids.length - NAMED;
    fact.textContent = `only ${names.filter(Boolean).map((name) => plainName({ name })).join(", ") || counted(ids.length, "document")}${left > 0 ? ` and ${left} more` : ""}`;
  });
  return fact;
}
