/** The chosen documents within the question box: each can be taken out, and all at once. */

import { nameOf, SHOWN } from "./chosen.js";
import { announce, h, icon, replace } from "./dom.js";
import { plainName } from "./file-names.js";
import { count } from "./format.js";

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
    const list = isOpen ? chosen.list : chosen.list.slice(0, SHOWN);
    if (list.some((one) => !one.name)) chosen.complete();
    const left = chosen.list.length - list.length;
    replace(
      element,
      h("span", { class: "chosen-label size-1 faint", text: `Only ${count(chosen.list.length, "document")}:` }),
      h("ul", { class: "chosen-list" }, list.map((one) => h("li", chip(one))), left > 0 && h("li", h("button", { type: "button", class: "chip", text: `${left.toLocaleString("en")} more`, on: { click: () => { isOpen = true; show(); } } }))),
      h("button", { type: "button", class: "link size-1", id: "clear-chosen", text: "Ask all documents", on: { click: () => set([]) } }),
    );
    if (had) /** @type {HTMLElement | null} */ (element.querySelector("button") ?? element.parentElement?.querySelector("textarea"))?.focus();
  };
  const set = (/** @type {import("./chosen.js").ChosenDocument[]} */ list) => {
    chosen.set(list);
    announce(list.length > 0 ? `${count(list.length, "document")} chosen` : "All documents are searched");
    if (list.length === 0) /** @type {HTMLElement | null} */ (element.parentElement?.querySelector("textarea"))?.focus();
  };
  const chip = (/** @type {import("./chosen.js").ChosenDocument} */ one) => {
    const name = plainName(one) || "One document";
    return h("button", { type: "button", class: "chip accent", title: `Leave out ${name}`, "aria-label": `Leave out ${name}`, on: { click: () => set(chosen.list.filter((other) => other.id !== one.id)) } }, h("span", { class: "clip", dir: "auto", text: name }), icon("close"));
  };
  chosen.changed = changed;
  return { element, show };
}

/**
 * What tells, among the facts of a run, that only some documents were asked.
 * @param {string[]} ids
 */
export function chosenFact(ids) {
  const fact = h("span", { class: "only-documents", dir: "auto", text: `only ${count(ids.length, "document")}` });
  Promise.all(ids.slice(0, NAMED).map(nameOf)).then((names) => {
    const left = ids.length - NAMED;
    fact.textContent = `only ${names.filter(Boolean).map((name) => plainName({ name })).join(", ") || count(ids.length, "document")}${left > 0 ? ` and ${left} more` : ""}`;
  });
  return fact;
}
