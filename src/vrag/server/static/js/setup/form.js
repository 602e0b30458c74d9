/** The form of a model: server, key, model, for whom; its test, and saving it. */

import { post, Problem, putJson } from "../api.js";
import { announce, h, icon, replace } from "../dom.js";
import { count } from "../format.js";
import { LOOPBACK, nearby } from "./found.js";
import { ModelTest } from "./model-test.js";

const ADDRESS = "address";

/**
 * @typedef {{name: string, title: string, address: string | null, needs_key: boolean, has_key: boolean, models: string[]}} Offered
 * @typedef {{name: string, sees: boolean | null}} Listed
 */

/**
 * @param {{state: any, saved: (state: any, model: string) => void}} how
 * @returns {{element: HTMLElement, fill: (server: string, model: string) => void, update: (state: any) => void, close: () => void}}
 */
export function modelForm({ state, saved }) {
  /** @type {Offered[]} */
  const servers = state.servers;
  const { admin } = state;
  /** @type {Listed[]} */
  let listed = [];
  /** Counts the lists that were asked for: an answer to an earlier question is dropped. */
  let asked = 0;

  const server = /** @type {HTMLSelectElement} */ (h("select", { id: "setup-server", on: { change: () => serverChanged() } }, serverOptions(servers, admin)));
  const address = input("setup-address", { type: "url", inputmode: "url", placeholder: "http://localhost:8002/v1", maxlength: 500, autocomplete: "off", spellcheck: "false", on: { change: () => list() } });
  const key = input("setup-key", { type: "password", maxlength: 500, autocomplete: "new-password", spellcheck: "false", "aria-describedby": "setup-key-hint", on: { change: () => list() } });
  const model = input("setup-model", { list: "setup-models", maxlength: 300, autocomplete: "off", spellcheck: "false", dir: "auto", "aria-describedby": "setup-model-hint", on: { input: () => hintModel() } });
  const family = /** @type {HTMLSelectElement} */ (h("select", { id: "setup-family" }, h("option", { value: "auto", text: "Find out (recommended)" }), state.families.map((/** @type {string} */ name) => h("option", { value: name, text: name }))));
  const suggestions = h("datalist", { id: "setup-models" });
  const addressField = h("label", { class: "field", hidden: true }, "Address", address);
  const keyHint = h("p", { class: "faint size-1", id: "setup-key-hint" });
  const keyField = h("div", { class: "setup-key" }, h("label", { class: "field" }, "Key", key), keyHint);
  const modelHint = h("p", { class: "faint size-1", id: "setup-model-hint", dir: "auto" });
  const problem = h("p", { class: "field-problem", id: "setup-problem", role: "alert", hidden: true });
  const scope = audience(admin);
  const test = new ModelTest();
  const testButton = h("button", { type: "button", id: "setup-test", on: { click: () => runTest() } }, icon("play"), h("span", { text: "Test" }));
  const save = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", id: "setup-save", class: "primary", text: "Save" }));

  const offered = () => servers.find((one) => one.name === server.value);
  const place = () => (server.value === ADDRESS ? address.value.trim() : server.value);
  const placeAddress = () => (server.value === ADDRESS ? address.value.trim() : (offered()?.address ?? null));
  const ownersModels = () => offered()?.models ?? [];
  const body = () => ({ server: place(), model: model.value.trim(), profile: family.value, ...(key.value.trim() && { key: key.value.trim() }) });

  const serverChanged = () => {
    addressField.hidden = server.value !== ADDRESS;
    keyField.hidden = ownersModels().length > 0;
    key.value = "";
    model.value = ownersModels()[0] ?? "";
    hintKey();
    list();
  };

  const hintKey = () => {
    const known = [state.session, admin ? state.for_all : null].find((one) => one?.has_key && one.address !== null && one.address === placeAddress());
    const one = offered();
    if (known) keyHint.textContent = `A key is set${known.key_end ? ` (…${known.key_end})` : ""}. Leave the field empty to keep it.`;
    else if (one?.has_key) keyHint.textContent = "This server has a key for it. Leave the field empty to use it.";
    else if (!server.value) keyHint.textContent = "";
    else if (one?.needs_key) keyHint.textContent = `${one.title} requires a key. It is stored on the server and not shown again.`;
    else keyHint.textContent = "Only if the server asks for one. It is stored on the server and not shown again.";
    return Boolean(known || one?.has_key || !one?.needs_key);
  };

  const list = async () => {
    const number = ++asked;
    show([]);
    const hasKey = hintKey() || key.value.trim() !== "";
    if (!place() || (server.value === ADDRESS && !URL.canParse(place()))) return tellModels("");
    if (!hasKey) return tellModels("Enter the key to see the models.");
    tellModels("Asking for the models…");
    try {
      const { models } = await post("/setup/models", { server: place(), ...(key.value.trim() && { key: key.value.trim() }) });
      if (number !== asked) return;
      show(models);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (number === asked && error.status !== 401) tellModels(`${error.detail} ${error.hint}`.trim());
    }
  };

  const show = (/** @type {Listed[]} */ models) => {
    listed = models;
    replace(suggestions, models.map(({ name, sees }) => h("option", { value: name, label: sees === false ? `${name}: text only` : sees ? `${name}: sees pictures` : name })));
    hintModel();
  };
  const tellModels = (/** @type {string} */ text) => {
    modelHint.classList.remove("warns");
    modelHint.textContent = text;
  };
  const hintModel = () => {
    const name = model.value.trim();
    const seen = listed.find((one) => one.name === name);
    if (seen?.sees === false) {
      modelHint.textContent = "This model reads text only: it cannot see pages. Choose a vision model, such as qwen3-vl.";
      modelHint.classList.add("warns");
    } else if (listed.length > 0) tellModels(name && !seen ? "The server does not list this model." : `${count(listed.length, "model")} to choose from.`);
    else tellModels("");
  };

  const refuse = (/** @type {string} */ text, /** @type {HTMLElement | null} */ field = null) => {
    problem.hidden = text === "";
    problem.textContent = text;
    for (const one of [server, address, model]) one.removeAttribute("aria-invalid");
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  };
  const complete = () => {
    refuse("");
    if (!server.value) refuse("Choose a server.", server);
    else if (server.value === ADDRESS && !address.value.trim()) refuse("Enter the address of the server.", address);
    else if (!model.value.trim()) refuse("Enter the name of the model.", model);
    return problem.hidden;
  };
  const fail = (/** @type {unknown} */ error) => {
    if (!(error instanceof Problem)) throw error;
    if (error.status !== 401) refuse(`${error.detail} ${error.hint}`.trim());
  };

  const runTest = async () => {
    if (test.running) return test.stop();
    if (!complete()) return;
    const label = /** @type {HTMLElement} */ (testButton.lastElementChild);
    label.textContent = "Stop the test";
    try {
      await test.run(body());
    } catch (error) {
      fail(error);
    } finally {
      label.textContent = "Test";
    }
  };

  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!complete()) return;
    save.disabled = true;
    try {
      const next = await putJson("/setup", { ...body(), scope: scope.value() });
      key.value = "";
      saved(next, model.value.trim());
    } catch (error) {
      fail(error);
    } finally {
      save.disabled = false;
    }
  };

  const element = h(
    "form",
    { class: "setup-form card", id: "setup-form", novalidate: true, "aria-label": "Choose a model", on: { submit } },
    h("div", { class: "setup-fields" }, h("label", { class: "field" }, "Server", server), addressField, keyField, h("div", h("label", { class: "field" }, "Model", model), suggestions, modelHint)),
    h("details", { class: "setup-more" }, h("summary", { text: "Model family" }), h("label", { class: "field" }, "Family", family), h("p", { class: "faint size-1", text: "The family determines how pictures are sent to the model and how it writes coordinates. It is detected from the name, the server or a short measurement. The test reports if another family fits better." })),
    scope.element,
    problem,
    h("div", { class: "row" }, testButton, save),
    test.element,
  );
  const choose = (/** @type {Offered | undefined} */ known, /** @type {string} */ url, /** @type {string} */ name) => {
    server.value = known ? known.name : ADDRESS;
    if (!known) address.value = url;
    serverChanged();
    model.value = name;
    refuse("");
  };
  const at = (/** @type {string} */ url) => servers.find((one) => one.address === url);
  const now = state.session ?? (admin ? state.for_all : null);
  const named = now && servers.find((one) => one.name === now.server_name);
  if (named || now?.address) choose(named ?? at(now.address), now.address, now.model);
  else serverChanged();

  return {
    element,
    fill(url, name) {
      choose(at(url), url, name);
      announce(`${name} is filled in below. Test it, then save it.`);
      testButton.focus();
      element.scrollIntoView({ block: "nearest" });
    },
    update(next) {
      state = next;
      hintKey();
    },
    close: () => test.stop(),
  };
}

/** @param {Offered[]} servers @param {boolean} admin */
function serverOptions(servers, admin) {
  const option = (/** @type {Offered} */ one) => h("option", { value: one.name, text: one.title });
  const local = servers.filter((one) => one.name !== "own" && isNear(one));
  const services = servers.filter((one) => one.name !== "own" && !isNear(one));
  return [
    h("option", { value: "", text: "Choose a server" }),
    servers.filter((one) => one.name === "own").map(option),
    local.length > 0 && h("optgroup", { label: capital(nearby()) }, local.map(option)),
    h("optgroup", { label: "Services" }, services.map(option)),
    admin && h("option", { value: ADDRESS, text: "Another address" }),
  ];
}

/** @param {Offered} one Whether it is a program on the machine of the server. */
const isNear = (one) => one.address !== null && LOOPBACK.has(new URL(one.address).hostname);

/** @param {string} text */
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** @param {string} id @param {Record<string, any>} props */
function input(id, props) {
  return /** @type {HTMLInputElement} */ (h("input", { id, type: "text", ...props }));
}

/**
 * For whom the model is: a choice that administrators have.
 * @param {boolean} admin
 */
function audience(admin) {
  const option = (/** @type {string} */ value, /** @type {string} */ title, /** @type {string} */ hint, /** @type {boolean} */ checked) =>
    h("label", { class: "audience-option" }, h("input", { type: "radio", name: "setup-scope", value, checked }), h("span", h("span", { text: title }), h("span", { class: "faint size-1", text: hint })));
  const element = h(
    "fieldset",
    { class: "audience", id: "setup-scope" },
    h("legend", { class: "size-1 soft", text: "Who uses it" }),
    option("session", "Only this browser", "Until you remove it, sign out, or do not use it for 12 hours. A restart of the server removes it too.", true),
    admin && option("all", "Everyone who uses this server", "Also programs. Kept until it is removed.", false),
  );
  return { element, value: () => /** @type {HTMLInputElement} */ (element.querySelector("input:checked")).value };
}
