/** The list of the documents of a collection: folders, filters, order, choice. Rows are added as one scrolls. */

import { announce, h, icon, iconButton, replace, showList } from "../dom.js";
import { count } from "../format.js";
import { isFiltered, keyOf, shownOf, typesOf } from "./listing.js";
import { documentRow, folderRow } from "./rows.js";

/** Rows that are added at one time. */
const CHUNK = 100;
/** Documents above which they can be filtered. */
const GLANCE = 8;

/**
 * @typedef {import("./listing.js").DocumentInfo} DocumentInfo
 * @typedef {import("./listing.js").ListState} ListState
 */

export class DocumentList {
  /** @type {DocumentInfo[]} */
  #documents = [];
  /** @type {ListState} */
  #state;
  /** @type {Set<string>} Keys of the documents that are chosen. */
  #chosen = new Set();
  #room = CHUNK;
  /** @type {DocumentInfo[]} */
  #rows = [];
  /** @type {ReturnType<typeof shownOf>["folders"]} */
  #folders = [];
  /** @type {string | null} Key of the last one that was ticked by hand. */
  #last = null;

  /**
   * @param {object} how
   * @param {{name: string, writable: boolean}} how.collection
   * @param {ListState} how.state
   * @param {Set<string>} how.ids Of the documents that are chosen at first.
   * @param {(state: ListState) => void} how.changed Called when the state was changed here.
   * @param {(documents: DocumentInfo[]) => void} how.ask
   * @param {(documents: DocumentInfo[]) => void} how.remove
   * @param {(one: DocumentInfo) => void} how.retry
   */
  constructor({ collection, state, ids, changed, ask, remove, retry }) {
    this.collection = collection;
    this.ids = ids;
    this.#state = state;
    this.changed = changed;
    this.act = { ask, remove, retry };
    this.words = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "filter-documents", placeholder: "Filter by name", "aria-label": "Filter documents by name", value: state.words, on: { input: () => this.#set({ words: this.words.value }) } }));
    this.type = this.#select("filter-type", "Type", "type");
    this.status = this.#select("filter-status", "State", "status");
    this.sort = this.#select("sort-documents", "Sort by", "sort");
    this.direction = iconButton("down", "Reverse the order", { id: "sort-direction", "aria-pressed": state.reversed, on: { click: () => this.#set({ reversed: !this.#state.reversed }) } });
    this.views = h("div", { class: "views", role: "radiogroup", "aria-label": "View" }, this.#view("list", "List", "menu"), this.#view("grid", "Grid", "grid"));
    this.tools = h("div", { class: "list-tools" }, this.words, this.type, this.status, this.sort, this.direction, this.views);
    this.path = h("nav", { class: "crumbs", "aria-label": "Folder" });
    this.all = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", id: "choose-all", "aria-label": "Choose all that are shown", on: { change: () => this.#tickAll(this.all.checked) } }));
    this.count = h("span", { class: "faint size-2", id: "documents-count", role: "status" });
    this.list = h("ul", { class: "held", "aria-label": `Documents of ${collection.name}`, on: { change: (/** @type {Event} */ event) => this.#ticked(event), click: (/** @type {MouseEvent} */ event) => this.#extend(event), keydown: (/** @type {KeyboardEvent} */ event) => this.#key(event) } });
    this.more = h("button", { type: "button", id: "more-documents", class: "quiet", hidden: true, on: { click: () => this.#grow() } });
    this.none = h("p", { class: "soft size-2 held-none", hidden: true });
    this.bar = h("div", { class: "choice-bar", id: "choice-bar", role: "region", "aria-label": "Chosen documents", hidden: true });
    this.element = h("div", { class: "listing" }, this.tools, this.path, h("div", { class: "list-head" }, h("label", { class: "held-tick" }, this.all), this.count), this.list, this.none, this.more, this.bar);
    new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && this.#grow(), { rootMargin: "600px" }).observe(this.more);
  }

  /** @param {DocumentInfo[]} documents */
  show(documents) {
    this.#documents = documents;
    const known = new Set(documents.map(keyOf));
    this.#chosen = new Set([...this.#chosen].filter((key) => known.has(key)));
    for (const one of documents) if (this.ids.has(one.id)) this.#chosen.add(keyOf(one));
    this.ids = new Set([...this.ids].filter((id) => !documents.some((one) => one.id === id)));
    this.#draw();
  }

  /** @param {ListState} state As the address says it. */
  follow(state) {
    if (state.folder !== this.#state.folder) this.#room = CHUNK;
    this.#state = state;
    if (this.words.value !== state.words) this.words.value = state.words;
    this.#draw();
  }

  clear() {
    this.#chosen.clear();
    this.#drawChoice();
  }

  /** @param {Partial<ListState>} change */
  #set(change) {
    this.#state = { ...this.#state, ...change };
    this.#room = CHUNK;
    this.#draw();
    this.changed(this.#state);
  }

  #grow() {
    this.#room += CHUNK;
    this.#drawRows();
  }

  #draw() {
    const state = this.#state;
    ({ folders: this.#folders, rows: this.#rows } = shownOf(this.#documents, state));
    this.tools.hidden = this.#documents.length <= GLANCE && !isFiltered(state);
    this.#fillSelects();
    this.direction.setAttribute("aria-pressed", String(state.reversed));
    for (const input of this.views.querySelectorAll("input")) input.checked = input.value === state.view;
    this.list.dataset.view = state.view;
    this.#drawPath();
    const shown = this.#rows.length;
    const all = this.#documents.length;
    this.count.textContent = isFiltered(state) || state.folder ? `${shown.toLocaleString("en")} of ${count(all, "file")}` : count(all, "file");
    this.none.hidden = shown + this.#folders.length > 0;
    replace(this.none, isFiltered(state) ? ["No document matches. ", h("button", { type: "button", class: "link", text: "Show all", on: { click: () => this.#set({ words: (this.words.value = ""), type: "", status: "" }) } })] : "This folder is empty.");
    this.#drawRows();
  }

  #drawRows() {
    const flat = isFiltered(this.#state);
    const rows = [...this.#folders, ...this.#rows.slice(0, this.#room)];
    const markOf = (/** @type {any} */ one) => JSON.stringify(one.documents ? [one.path, one.documents.length] : [one, flat, this.collection.writable]);
    showList(this.list, rows, markOf, (one) => ("documents" in one ? folderRow(one, () => this.#set({ folder: one.path })) : this.#row(one, flat)));
    const left = this.#rows.length - this.#room;
    this.more.hidden = left <= 0;
    this.more.textContent = `Show ${Math.min(left, CHUNK)} more of ${count(this.#rows.length, "file")}`;
    this.#drawChoice();
  }

  /** @param {DocumentInfo} one @param {boolean} withFolder */
  #row(one, withFolder) {
    return documentRow(one, { withFolder, writable: this.collection.writable, ask: () => this.act.ask([one]), remove: () => this.act.remove([one]), retry: () => this.act.retry(one) });
  }

  #drawPath() {
    const parts = this.#state.folder.split("/").filter(Boolean);
    this.path.hidden = parts.length === 0;
    const step = (/** @type {string} */ label, /** @type {string} */ folder) => h("li", h("button", { type: "button", class: "quiet", "aria-current": folder === this.#state.folder ? "location" : null, on: { click: () => this.#set({ folder }) } }, h("span", { class: "clip", dir: "auto", text: label })));
    replace(this.path, parts.length > 0 && h("ol", step(this.collection.name, ""), parts.map((part, at) => step(part, parts.slice(0, at + 1).join("/")))));
  }

  #drawChoice() {
    for (const row of /** @type {NodeListOf<HTMLElement>} */ (this.list.querySelectorAll(".held-row"))) {
      const own = this.#of(row);
      const ticked = own.filter((one) => this.#chosen.has(keyOf(one))).length;
      const box = /** @type {HTMLInputElement} */ (row.querySelector("input"));
      box.checked = ticked > 0 && ticked === own.length;
      box.indeterminate = ticked > 0 && ticked < own.length;
      row.toggleAttribute("data-chosen", box.checked);
    }
    const shown = this.#shown();
    const ticked = shown.filter((one) => this.#chosen.has(keyOf(one))).length;
    this.all.checked = shown.length > 0 && ticked === shown.length;
    this.all.indeterminate = ticked > 0 && ticked < shown.length;
    this.#drawBar();
  }

  #drawBar() {
    const chosen = this.#documents.filter((one) => this.#chosen.has(keyOf(one)));
    const asked = chosen.filter((one) => one.items > 0);
    const had = this.bar.contains(document.activeElement);
    this.bar.hidden = chosen.length === 0;
    if (chosen.length === 0) {
      if (had) this.all.focus();
      return;
    }
    const label = asked.length === 1 ? "Ask this document" : `Ask ${count(asked.length, "document")}`;
    replace(
      this.bar,
      h("span", { class: "grow", text: `${count(chosen.length, "document")} chosen` }),
      h("button", { type: "button", class: "quiet", text: "Clear", on: { click: () => this.clear() } }),
      this.collection.writable && h("button", { type: "button", class: "quiet", id: "remove-chosen", on: { click: () => this.act.remove(chosen) } }, icon("trash"), "Remove"),
      asked.length > 0 && h("button", { type: "button", class: "primary", id: "ask-chosen", text: label, on: { click: () => this.act.ask(asked) } }),
    );
  }

  /** All that is shown, in folders too. */
  #shown() {
    return [...this.#folders.flatMap((folder) => folder.documents), ...this.#rows];
  }

  /** @param {HTMLElement} row The documents of a row: those of a folder, or one. */
  #of(row) {
    const { path, document: id, name, folder } = row.dataset;
    if (path !== undefined) return this.#folders.find((one) => one.path === path)?.documents ?? [];
    return this.#rows.filter((one) => one.id === id && one.name === name && one.folder === folder);
  }

  /** @param {DocumentInfo[]} documents @param {boolean} on */
  #tick(documents, on) {
    for (const one of documents) {
      if (on) this.#chosen.add(keyOf(one));
      else this.#chosen.delete(keyOf(one));
    }
    this.#drawChoice();
    announce(`${count(this.#chosen.size, "document")} chosen`);
  }

  /** @param {boolean} on */
  #tickAll(on) {
    this.#tick(this.#shown(), on);
  }

  /** @param {Event} event */
  #ticked(event) {
    const box = /** @type {HTMLInputElement} */ (event.target);
    const own = this.#of(/** @type {HTMLElement} */ (box.closest(".held-row")));
    this.#last = own.length === 1 ? keyOf(own[0]) : null;
    this.#tick(own, box.checked);
  }

  /** @param {MouseEvent} event With Shift, all from the last one that was ticked are. */
  #extend(event) {
    const box = /** @type {HTMLElement} */ (event.target);
    if (!event.shiftKey || !(box instanceof HTMLInputElement)) return;
    const [own] = this.#of(/** @type {HTMLElement} */ (box.closest(".held-row")));
    const [from, to] = [this.#rows.findIndex((one) => keyOf(one) === this.#last), this.#rows.indexOf(own)].sort((a, b) => a - b);
    if (from >= 0) this.#tick(this.#rows.slice(from, to + 1), box.checked);
  }

  /** @param {KeyboardEvent} event Arrows go from row to row, and stay with the same control. */
  #key(event) {
    const active = /** @type {HTMLElement} */ (event.target);
    const row = active.closest(".held-row");
    const rows = [...this.list.children];
    const at = row ? rows.indexOf(row) : -1;
    /** @type {Record<string, number>} */
    const goals = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 };
    const next = rows[goals[event.key] ?? -1];
    if (at < 0 || !next || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const same = active instanceof HTMLInputElement ? "input" : ".held-open";
    /** @type {HTMLElement | null} */ (next.querySelector(same) ?? next.querySelector("input"))?.focus();
    if (next instanceof HTMLElement) next.scrollIntoView({ block: "nearest" });
  }

  #fillSelects() {
    const types = typesOf(this.#documents);
    const names = { pending: "Waiting", ready: "Ready", partial: "Partly read", failed: "Not read" };
    const states = Object.entries(names).filter(([status]) => this.#documents.some((one) => one.status === status));
    this.#offer(this.type, [["", "All types"], ...types.map(([type, count]) => [type, `${type || "Other"} (${count.toLocaleString("en")})`])], this.#state.type);
    this.#offer(this.status, [["", "All states"], ...states], this.#state.status);
    this.#offer(this.sort, [["name", "Name"], ["modified", "Date"], ["size", "Size"], ["pages", "Pages"]], this.#state.sort);
    this.type.hidden = types.length < 2 && !this.#state.type;
    this.status.hidden = states.length < 2 && !this.#state.status;
  }

  /** @param {HTMLElement} select @param {string[][]} options @param {string} value */
  #offer(select, options, value) {
    const mark = JSON.stringify(options);
    if (select.dataset.offered !== mark) {
      select.dataset.offered = mark;
      replace(select, options.map(([name, label]) => h("option", { value: name, text: label })));
    }
    /** @type {HTMLSelectElement} */ (select).value = value;
  }

  /** @param {string} id @param {string} label @param {"type" | "status" | "sort"} key */
  #select(id, label, key) {
    return h("select", { id, "aria-label": label, on: { change: (/** @type {Event} */ event) => this.#set({ [key]: /** @type {HTMLSelectElement} */ (event.target).value }) } });
  }

  /** @param {"list" | "grid"} name @param {string} label @param {string} sign */
  #view(name, label, sign) {
    return h("label", { title: label }, h("input", { type: "radio", name: "view", value: name, "aria-label": label, on: { change: () => this.#set({ view: name }) } }), icon(sign));
  }
}
