/** The settings: the model that answers, the options that questions begin with here, and what runs now. */

import { del, get, Problem } from "../api.js";
import { announce, h, icon, replace, toast } from "../dom.js";
import { attempt, showNotice } from "../overlays.js";
import { followChosenModel, optionFields, selectOptions, storedOptions, storeOptions } from "../run-options.js";
import { showActivity } from "./activity.js";
import { FoundServers } from "./found.js";
import { modelForm } from "./form.js";
import { retentionForm } from "./retention.js";

const POLL = 3_000;

/**
 * Shows the settings.
 * @param {HTMLElement} root
 * @param {{offer: () => any, reload: () => Promise<void>}} how `reload` loads what the server offers again.
 * @returns {{close: () => void}}
 */
export function showSetup(root, { offer, reload }) {
  let closed = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof modelForm> | null} */
  let form = null;
  const chosen = h("div", { class: "setup-chosen card", id: "setup-chosen" });
  const defaults = h("div", { id: "setup-defaults" });
  const now = h("div", { class: "setup-now", id: "setup-now" });

  const load = async () => {
    replace(root, h("p", { class: "loading" }, h("span", { class: "spinner" }), "Loading"));
    try {
      const state = await get("/setup");
      if (!closed) draw(state);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (closed || error.status === 401) return;
      const again = h("button", { type: "button", class: "primary", text: "Try again", on: { click: load } });
      showNotice(root, { id: "no-setup", level: "h1", title: error.detail, hint: error.hint, actions: [again] });
    }
  };

  const draw = (/** @type {any} */ state) => {
    /** @type {FoundServers | null} */
    const found = state.changeable && state.admin ? new FoundServers({ use: (server, model) => form?.fill(server, model) }) : null;
    form = state.changeable ? modelForm({ state, saved: (next, model) => saved(next, model) }) : null;
    replace(
      root,
      h(
        "div",
        { class: "setup" },
        h("h1", { text: "Settings" }),
        h("section", { "aria-labelledby": "setup-model-title" }, h("h2", { id: "setup-model-title", text: "Model" }), chosen, !state.changeable && h("p", { class: "setup-closed", id: "setup-closed" }, icon("page"), h("span", { text: state.reason })), found?.element, form?.element),
        h("section", { "aria-labelledby": "setup-defaults-title" }, h("h2", { id: "setup-defaults-title", text: "New questions" }), h("p", { class: "soft size-2", text: "New questions in this browser begin with these options. You can change them for each question." }), defaults),
        h("section", { "aria-labelledby": "setup-now-title" }, h("h2", { id: "setup-now-title", text: "What runs now" }), now),
        state.admin && h("section", { "aria-labelledby": "setup-retention-title" }, h("h2", { id: "setup-retention-title", text: "Past questions" }), retentionForm()),
        h("p", { class: "soft size-2" }, "Programs can use this server too: ", h("a", { href: "docs", text: "HTTP interface" }), "."),
      ),
    );
    show(state);
    showDefaults();
    found?.look();
    poll();
  };

  const show = (/** @type {any} */ state) => {
    replace(chosen, chosenModel(state, remove));
    form?.update(state);
    showActivity(now, state.activity);
  };

  const showDefaults = () => {
    const choices = selectOptions(offer(), storedOptions());
    replace(defaults, optionFields(offer(), choices, () => storeOptions(offer(), choices), { folded: false }));
  };

  const changed = async (/** @type {any} */ state) => {
    await reload(); // before it is told: a question that is asked then is asked with it
    if (closed) return;
    show(state);
    showDefaults();
  };

  const saved = async (/** @type {any} */ state, /** @type {string} */ model) => {
    followChosenModel();
    await changed(state);
    toast(`Saved. ${model} answers new questions.`, { kind: "ok" });
  };

  const remove = async (/** @type {"session" | "all"} */ scope) => {
    await attempt(async () => {
      const state = await del(`/setup?scope=${scope}`);
      await changed(state);
      announce("Removed");
    });
  };

  const poll = () => {
    timer = setTimeout(async () => {
      try {
        const { activity } = await get("/setup");
        if (!closed) showActivity(now, activity);
      } catch (error) {
        if (!(error instanceof Problem)) throw error;
        if (error.status === 401) return;
      }
      if (!closed) poll();
    }, POLL);
  };

  load();
  return {
    close() {
      closed = true;
      clearTimeout(timer);
      form?.close();
    },
  };
}

/** @type {Record<string, string>} */
const SOURCES = {
  session: "You chose it for this browser.",
  all: "It was chosen for everyone.",
  settings: "The administrator of this server has set it.",
  none: "Short answers are found in the documents. Choose a model for full answers.",
};

/** @param {any} state @param {(scope: "session" | "all") => void} remove */
function chosenModel({ activity, session, for_all, admin, changeable, problem }, remove) {
  const withoutModel = activity.source === "none";
  const row = (/** @type {"session" | "all"} */ scope, /** @type {any} */ one, /** @type {string} */ label, /** @type {boolean} */ removable) =>
    one &&
    h(
      "li",
      { dataset: { scope } },
      h("span", { class: "grow" }, `${label}: `, h("b", { dir: "auto", text: one.model }), one.server && ` at ${one.server}`, one.has_key && ` · ${one.key_end ? `key …${one.key_end}` : "with a key"}`),
      removable && changeable && h("button", { type: "button", id: `setup-remove-${scope}`, "aria-label": `Remove the model ${scope === "all" ? "for everyone" : "for this browser"}`, text: "Remove", on: { click: () => remove(scope) } }),
    );
  return [
    h("p", { class: "setup-answers" }, withoutModel ? "Questions are answered " : "Questions are answered by ", h("b", { id: "setup-current", dir: "auto", text: withoutModel ? "without a model" : activity.model }), "."),
    h("p", { class: "soft size-2", text: SOURCES[activity.source] }),
    problem && h("p", { class: "field-problem", role: "alert", dir: "auto", text: `${problem} Choose a model again.` }),
    (session || (for_all && admin)) && h("ul", row("session", session, "For this browser", true), admin && row("all", for_all, "For everyone", true)),
  ];
}
