/** The left sidebar: new question, documents, past runs and their search, theme. A drawer on narrow screens. */

import { del, Problem } from "./api.js";
import { h, icon, iconButton, replace, toast } from "./dom.js";
import { showHistory } from "./history.js";

const KEPT = "vrag.rail";
const KEPT_THEME = "vrag.theme";
const THEMES = /** @type {const} */ ([["device", "As the device", "device"], ["light", "Light", "sun"], ["dark", "Dark", "moon"]]);
const ROOM = window.matchMedia("(min-width: 1100px)");
/** Room for the viewer as well. */
const BOTH = window.matchMedia("(min-width: 1500px)");

/**
 * @param {HTMLElement} sidebar
 * @param {{version: string, secured: boolean, loadMore: () => void}} how `secured`: there is a session to leave.
 */
export function buildSidebar(sidebar, { version, secured, loadMore }) {
  /** @typedef {Omit<Parameters<typeof showHistory>[1], "words"> & {fault: string}} Shown `fault`: why there are none. */
  /** @type {Shown} */
  let shown = { runs: [], current: null, more: false, fault: "" };
  const list = h("div", { class: "sidebar-list", id: "past-runs", tabindex: "-1" });
  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "search-runs", placeholder: "Search past runs", "aria-label": "Search past runs", autocomplete: "off" }));
  const uploading = h("span", { class: "uploading", hidden: true });
  const links = {
    ask: h("a", { href: "#/", id: "new-question", class: "sidebar-link" }, icon("plus"), "New question", h("kbd", { "aria-hidden": true, text: "/" })),
    documents: h("a", { href: "#/documents", id: "to-documents", class: "sidebar-link" }, icon("pages"), "Documents", uploading),
    setup: h("a", { href: "#/setup", id: "to-setup", class: "sidebar-link" }, icon("sliders"), "Settings"),
  };
  const draw = () => {
    if (shown.fault && shown.runs.length === 0) replace(list, h("p", { class: "sidebar-empty", text: shown.fault }));
    else showHistory(list, { ...shown, words: search.value.trim() }, loadMore);
  };
  search.addEventListener("input", draw);
  replace(
    sidebar,
    h("div", { class: "sidebar-brand" }, h("a", { href: "#/", class: "brand" }, h("img", { src: "/static/icon.svg", alt: "", width: 24, height: 24 }), "vrag"), h("span", { class: "grow" }), iconButton("sidebar", "Hide the list of runs", { id: "sidebar-close", on: { click: () => openSidebar(false) } })),
    h("div", { class: "sidebar-links" }, links.ask, links.documents),
    h("div", { class: "sidebar-search" }, icon("search"), search),
    list,
    h("div", { class: "sidebar-foot" }, links.setup, themeToggle(), h("span", { class: "faint size-1 grow", text: `vrag ${version}` }), secured && iconButton("leave", "Sign out", { id: "sign-out", on: { click: signOut } })),
  );
  drawer();
  return {
    /** @param {Shown} next */
    show(next) {
      shown = next;
      draw();
    },
    /** @param {"ask" | "run" | "documents" | "setup"} name */
    mark(name) {
      links.ask.toggleAttribute("data-here", name === "ask");
      links.documents.toggleAttribute("data-here", name === "documents");
      links.setup.toggleAttribute("data-here", name === "setup");
      if (!ROOM.matches) openSidebar(false);
    },
    /** @param {number} count */
    uploads(count) {
      uploading.hidden = count === 0;
      replace(uploading, h("span", { class: "spinner" }), h("span", { "aria-label": `${count} uploading`, text: count }));
    },
  };
}

function drawer() {
  const settle = () => {
    const room = ROOM.matches && (BOTH.matches || !("viewer" in document.documentElement.dataset));
    openSidebar(room && localStorage.getItem(KEPT) !== "closed", false);
  };
  for (const screen of [ROOM, BOTH]) screen.addEventListener("change", settle);
  window.addEventListener("vrag:viewer", settle);
  document.getElementById("sidebar-shade")?.addEventListener("click", () => openSidebar(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && element("column").inert && !document.querySelector("dialog[open]")) openSidebar(false);
  });
  settle();
}

/**
 * Opens or closes the sidebar. As a drawer it takes the focus, and gives it back.
 * @param {boolean} open
 * @param {boolean} [byHand] Whether a person did it: then it is kept, and the focus moves.
 */
export function openSidebar(open, byHand = true) {
  const was = document.documentElement.dataset.sidebar === "open";
  document.documentElement.dataset.sidebar = open ? "open" : "closed";
  const modal = open && !ROOM.matches;
  element("sidebar").inert = !open;
  element("column").inert = modal;
  element("sidebar-shade").hidden = !modal;
  if (!byHand || was === open) return;
  if (ROOM.matches) localStorage.setItem(KEPT, open ? "open" : "closed");
  document.getElementById(open ? "sidebar-close" : "sidebar-open")?.focus(); // a run that loads has no toolbar yet
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

async function signOut() {
  try {
    await del("/session");
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) toast("You are still signed in.", { kind: "danger", hint: error.detail });
    return;
  }
  sessionStorage.clear(); // drafts of questions
  window.dispatchEvent(new CustomEvent("vrag:signed-out", { detail: { byHand: true } }));
}

/** Light, dark, or as the device is; first.js applies the choice before the first paint. @returns {HTMLElement} */
function themeToggle() {
  const kept = document.documentElement.dataset.theme ?? "device";
  const choose = (/** @type {string} */ name) => {
    if (name === "device") {
      delete document.documentElement.dataset.theme;
      localStorage.removeItem(KEPT_THEME);
    } else {
      document.documentElement.dataset.theme = name;
      localStorage.setItem(KEPT_THEME, name);
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
