/** Model servers on the machine of this server, as cards: press a model to fill the form. */

import { get, Problem } from "../api.js";
import { announce, h, icon, replace } from "../dom.js";

/** Names of the own machine. */
export const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** @typedef {{title: string, server: string, models: {name: string, sees: boolean | null}[]}} Found */

/** Where the servers are that are found, in words of who sees the page. @returns {string} */
export const nearby = () => (LOOPBACK.has(location.hostname) ? "on this computer" : "on the server's computer");

export class FoundServers {
  #list = h("div", { class: "server-list" });
  #again = h("button", { type: "button", id: "look-again", class: "quiet", text: "Look again", on: { click: () => this.look() } });

  /** @param {{use: (server: string, model: string) => void}} how */
  constructor({ use }) {
    this.use = use;
    this.element = h("div", { class: "servers", id: "setup-found" }, h("header", h("h3", { text: `Found ${nearby()}` }), this.#again), this.#list);
  }

  async look() {
    replace(this.#list, h("p", { class: "row soft size-2", role: "status" }, h("span", { class: "spinner" }), "Looking for model servers"));
    this.#again.toggleAttribute("disabled", true);
    try {
      const { servers } = await get("/setup/servers");
      replace(this.#list, servers.length > 0 ? servers.map((/** @type {Found} */ one) => card(one, this.use)) : nothing());
      announce(servers.length > 0 ? `Found: ${servers.map((/** @type {Found} */ one) => one.title).join(", ")}` : "No model server was found");
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      replace(this.#list, h("p", { class: "field-problem", text: `${error.detail} ${error.hint}`.trim() }));
    } finally {
      this.#again.toggleAttribute("disabled", false);
    }
  }
}

function nothing() {
  return h("p", { class: "soft size-2", id: "found-none", text: `No model server answers ${nearby()}. Start one, such as Ollama, LM Studio, vLLM or llama.cpp, and look again; or use a service below.` });
}

/** @param {Found} found @param {(server: string, model: string) => void} use */
function card({ title, server, models }, use) {
  const usable = models.filter((model) => model.sees !== false);
  const blind = models.filter((model) => model.sees === false);
  return h(
    "section",
    { class: "server-card card", "aria-label": `${title} ${nearby()}`, dataset: { server } },
    h("h4", h("span", { text: title }), h("span", { class: "faint size-1", text: new URL(server).host })),
    h("ul", usable.map((model) => h("li", modelButton(model, () => use(server, model.name))))),
    usable.length === 0 && h("p", { class: "soft size-2", text: "None of its models sees pictures. Load a vision model, such as qwen3-vl." }),
    blind.length > 0 && h("p", { class: "faint size-1", dir: "auto", text: `Text only, cannot see pages: ${blind.map((model) => model.name).join(", ")}` }),
  );
}

/** @param {Found["models"][0]} model @param {() => void} use */
function modelButton({ name, sees }, use) {
  return h(
    "button",
    { type: "button", class: "server-model", dataset: { model: name }, on: { click: use } },
    icon(sees ? "image" : "dot"),
    h("span", { class: "clip", dir: "auto", text: name }),
    h("span", { class: "faint size-1", text: sees ? "sees pictures" : "picture support unknown" }),
  );
}
