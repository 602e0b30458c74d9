/** The left sidebar: new question, documents, past runs and their search, theme. A drawer on narrow screens. */

import { del, Problem } from "./api.js";
import { openActions } from "./conversation-actions.js";
import { h, icon, iconButton, redraw, replace, toast } from "./dom.js";
import { showHistory } from "./history.js";
import { isNarrow } from "./past-runs.js";

const KEPT = "vrag.rail";
const KEPT_THEME = "vrag.theme";
const THEMES = /** @type {const} */ ([["device", "As the device", "device"], ["light", "Light", "sun"], ["dark", "Dark", "moon"]]);
const ROOM = window.matchMedia("(min-width: 1100px)");
/** Room for the viewer as well. */
const BOTH = window.matchMedia("(min-width: 1500px)");

/** @type {Record<string, string>} */
const MAY = { ask: "ask", upload: "ask and add documents", manage: "ask, add documents and create collections" };

/** What a user may do, by the role. @param {import("./past-runs.js").Session} session */
export const abilityOf = ({ admin, role }) => (admin ? "administer this server" : (MAY[role ?? ""] ?? "ask"));

/** Time after the last key before the server is asked for what is searched for. */
const TYPING = 250;

/**
 * @param {HTMLElement} sidebar
 * @param {{runs: import("./past-runs.js").PastRuns, offer: () => any}} how `offer`: what the server offers now.
 *   `identify` shows again who is signed in.
 */
export function buildSidebar(sidebar, { runs, offer }) {
  /** @type {string | null} */
  let current = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  const list = h("div", { class: "sidebar-list", id: "past-runs", tabindex: "-1" });
  const search = /** @type {HTMLInputElement} */ (h("input", { type: "search", id: "search-runs", placeholder: "Search past questions", "aria-label": "Search past questions", maxlength: 300, dir: "auto", autocomplete: "off" }));
  const filters = h("div", { class: "run-filters", id: "run-filters", hidden: true });
  const filter = iconButton("sliders", "Filter past questions", { id: "filter-runs", "aria-expanded": false, "aria-controls": "run-filters", on: { click: () => openFilters(filters.hidden) } });
  const askers = h("div", { class: "askers", id: "askers", role: "group", "aria-label": "Asked by", hidden: true });
  const uploading = h("span", { class: "uploading", hidden: true });
  const links = {
    ask: h("a", { href: "#/", id: "new-question", class: "sidebar-link" }, icon("plus"), "New question", h("kbd", { "aria-hidden": true, text: "/" })),
    documents: h("a", { href: "#/documents", id: "to-documents", class: "sidebar-link" }, icon("pages"), "Documents", uploading),
    setup: h("a", { href: "#/setup", id: "to-setup", class: "sidebar-link" }, icon("sliders"), "Settings"),
  };
  const openFilters = (/** @type {boolean} */ open) => {
    filters.hidden = !open;
    filter.setAttribute("aria-expanded", String(open));
    if (open) filters.querySelector("select")?.focus();
  };
  const draw = () => {
    if (document.getElementById("rename")) return; // somebody types there
    const { view } = runs;
    showAskers(askers, runs);
    showFilters(filters, runs, offer());
    filter.toggleAttribute("data-active", isNarrow({ ...view, text: "" }));
    if (runs.fault && runs.shown.length === 0) replace(list, h("p", { class: "sidebar-empty", text: runs.fault }));
    else {
      const shown = { runs: runs.shown, words: search.value.trim(), narrow: isNarrow(view), current, more: runs.more, offer: offer(), user: runs.session.user };
      showHistory(list, shown, { loadMore: () => runs.loadOlder(), actions: (talk, button) => openActions(talk, button, runs, draw) });
    }
  };
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => runs.show({ text: search.value.trim() }), TYPING);
    draw();
  });
  const account = h("div", { class: "who grow" });
  const identify = () => redraw(account, who(runs.session));
  identify();
  replace(
    sidebar,
    h("div", { class: "sidebar-brand" }, h("a", { href: "#/", class: "brand", title: `vrag ${offer().version}` }, h("img", { src: "static/icon.svg", alt: "", width: 24, height: 24 }), "vrag"), h("span", { class: "grow" }), iconButton("sidebar", "Hide past questions", { id: "sidebar-close", on: { click: () => openSidebar(false) } })),
    h("div", { class: "sidebar-links" }, links.ask, links.documents),
    h("div", { class: "sidebar-search" }, h("div", { class: "sidebar-field" }, icon("search"), search), filter),
    filters,
    askers,
    list,
    h("div", { class: "sidebar-foot" }, links.setup, themeToggle(), runs.session.needed ? account : h("span", { class: "faint size-1 grow", text: `vrag ${offer().version}` })),
  );
  drawer();
  return {
    identify,
    /** @param {string | null} run Id of the run that is open. */
    show(run) {
      current = run;
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

/** Who is signed in, and the way out. @param {import("./past-runs.js").Session} session */
function who(session) {
  const { user, admin } = session;
  const role = !admin ? `, who may ${abilityOf(session)}` : user !== "admin" ? ", administrator" : "";
  return [
    h("span", { class: "clip", id: "who", title: `Signed in as ${user}${role}` }, icon("user"), h("span", { class: "hidden-text", text: "Signed in as " }), h("span", { class: "clip", dir: "auto", text: user })),
    iconButton("leave", "Sign out", { id: "sign-out", on: { click: signOut } }),
  ];
}

/** The choice between runs of people and of programs, where there are both. @param {HTMLElement} box @param {import("./past-runs.js").PastRuns} runs */
function showAskers(box, runs) {
  const { counts, view } = runs;
  if (isSame(box, [counts, view.asker])) return;
  box.hidden = counts.programs === 0 && view.asker === "people";
  const choice = (/** @type {"people" | "programs"} */ asker, /** @type {string} */ label) =>
    h("button", { type: "button", class: "quiet", id: `asked-by-${asker}`, "aria-pressed": view.asker === asker, on: { click: () => runs.show({ asker }) } }, label, h("span", { class: "tab-count", text: counts[asker] }));
  redraw(box, choice("people", "People"), choice("programs", "Programs"));
}

/** @param {HTMLElement} box @param {import("./past-runs.js").PastRuns} runs @param {any} offer */
function showFilters(box, runs, offer) {
  const { view, owners } = runs;
  if (isSame(box, [view, owners, offer.agents, offer.collections.map((/** @type {any} */ one) => one.name)])) return; // an open list would close
  const choice = (/** @type {"agent" | "collection" | "owner"} */ name, /** @type {string} */ label, /** @type {string} */ all, /** @type {[string, string][]} */ options) =>
    h(
      "label",
      { class: "field" },
      label,
      h(
        "select",
        { id: `filter-${name}`, on: { change: (/** @type {Event} */ event) => runs.show({ [name]: named(name, /** @type {HTMLSelectElement} */ (event.target).value) }) } },
        [[ALL, all], ...options].map(([value, text]) => h("option", { value, text, selected: value === (view[name] || (name === "owner" && view.owner === "" ? "" : ALL)) })),
      ),
    );
  redraw(
    box,
    choice("agent", "Agent", "All agents", offer.agents.map((/** @type {any} */ one) => [one.name, one.title.split(":")[0]])),
    offer.collections.length > 1 && choice("collection", "Collection", "All collections", offer.collections.map((/** @type {any} */ one) => [one.name, one.name])),
    owners.length > 1 && choice("owner", "User", "All users", owners.map((name) => [name, name || "No user"])),
  );
}

/** Whether a part shows these values already; from now on it does. @param {HTMLElement} box @param {unknown} values */
function isSame(box, values) {
  const before = box.dataset.shown;
  box.dataset.shown = JSON.stringify(values);
  return before === box.dataset.shown;
}

/** A value that is no name. */
const ALL = "*";

/** @param {"agent" | "collection" | "owner"} filter @param {string} value */
const named = (filter, value) => (value !== ALL ? value : filter === "owner" ? null : "");

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
