/** The page after sign-in: the sidebar and the view that the route names. */

import { get, Problem } from "./api.js";
import { showAsk } from "./ask.js";
import { showToolbar } from "./toolbar.js";
import { composer } from "./composer.js";
import { showDocuments } from "./documents.js";
import { announce, h, replace, toast } from "./dom.js";
import { receiveFiles } from "./drag-drop.js";
import { showNotice } from "./overlays.js";
import { PastRuns } from "./past-runs.js";
import { copyLink } from "./share.js";
import { buildSidebar } from "./sidebar.js";
import { here, navigate, onRoute, runHash } from "./router.js";
import { mount } from "./run/view.js";
import { showSetup } from "./setup/setup.js";
import { Uploads } from "./uploads.js";

/** @typedef {import("./router.js").Route} Route */

export class Page {
  #main = element("main");
  #toolbar = element("toolbar");
  /** @type {import("./composer.js").Composer | null} */
  #box = null;
  /** @type {{destroy: () => void, show?: (step: number | null, cite: number | null) => void} | null} */
  #run = null;
  /** @type {ReturnType<typeof showDocuments> | null} */
  #documents = null;
  /** @type {ReturnType<typeof showAsk> | null} */
  #ask = null;
  /** @type {ReturnType<typeof showSetup> | null} */
  #setup = null;
  /** @type {string | null} Id of the run that is open. */
  #current = null;
  /** Counts what was shown: what was asked for one view never fills a later one. */
  #visit = 0;
  #began = false;

  /** @param {any} offer @param {import("./past-runs.js").Session} session */
  constructor(offer, session) {
    this.offer = offer;
    this.runs = new PastRuns(session, { changed: () => this.#runsChanged(), away: (away) => this.#away(away) });
    this.uploads = new Uploads(offer.limits, { changed: () => this.#uploadsChanged(), finished: (upload) => this.#uploaded(upload) });
    this.sidebar = buildSidebar(element("sidebar"), { runs: this.runs, offer: () => this.offer });
    receiveFiles({ target: () => this.#target(), take: (files, collection) => this.#take(files, collection) });
    element("skip").addEventListener("click", () => this.#main.focus());
    document.addEventListener("keydown", (event) => this.#slash(event));
  }

  open() {
    this.#runsChanged();
    this.runs.refresh();
    onRoute((route) => this.#show(route));
  }

  close() {
    this.#leave();
    this.runs.stop();
  }

  /** @param {Route} route */
  #show(route) {
    if (route.name === "run" && route.id === this.#current) {
      this.#run?.show?.(route.step, route.cite);
      return;
    }
    this.#leave();
    this.sidebar.mark(route.name);
    if (route.name === "run") this.#showRun(route);
    else if (route.name === "documents") this.#showDocuments(route.collection);
    else if (route.name === "setup") this.#showSetup();
    else this.#showAsk();
    this.#runsChanged();
    if (this.#began && route.name !== "ask") this.#main.focus({ preventScroll: true });
    this.#began = true;
  }

  #leave() {
    this.#visit++;
    this.#run?.destroy();
    this.#setup?.close();
    this.#setup = null;
    this.#run = this.#documents = this.#ask = this.#box = this.#current = null;
  }

  #showAsk() {
    document.title = "vrag";
    showToolbar(this.#toolbar);
    this.#box = composer({ offer: this.offer, asked: (run, here) => this.#asked(run, here), changed: () => this.#ask?.update() });
    const typing = document.activeElement?.id === "first-box"; // see first.js
    this.#ask = showAsk(this.#main, { offer: this.offer, box: this.#box, uploads: this.uploads });
    if (typing || window.matchMedia("(hover: hover)").matches) this.#box.focus(); // elsewhere a keyboard would cover half of the page
  }

  #showSetup() {
    document.title = "Settings · vrag";
    showToolbar(this.#toolbar);
    this.#setup = showSetup(this.#main, { offer: () => this.offer, reload: () => this.#reload() });
  }

  /** @param {string | null} name */
  async #showDocuments(name) {
    document.title = "Documents · vrag";
    showToolbar(this.#toolbar);
    const visit = ++this.#visit;
    replace(this.#main, loading());
    try {
      const listing = await get("/collections");
      if (visit === this.#visit) this.#documents = showDocuments(this.#main, { name, listing, uploads: this.uploads, reload: () => this.#reload() });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (visit !== this.#visit || error.status === 401) return;
      const again = h("button", { type: "button", class: "primary", text: "Try again", on: { click: () => this.#showDocuments(name) } });
      showNotice(this.#main, { id: "no-documents-list", level: "h1", title: error.detail, hint: error.hint, actions: [again] });
    }
  }

  /** @param {Extract<Route, {name: "run"}>} route */
  async #showRun({ id, step, cite }) {
    const visit = this.#visit;
    this.#current = id;
    replace(this.#main, loading());
    try {
      const run = this.runs.find(id) ?? (await get(`/runs/${encodeURIComponent(id)}`));
      if (visit !== this.#visit) return;
      this.#mount(run, step, cite);
      this.runs.put(run);
      if (run.session !== run.id) this.runs.loadSession(run.session);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (visit === this.#visit && error.status !== 401) this.#noRun(error);
    }
  }

  /** @param {import("./history.js").Run} run @param {number | null} step @param {number | null} cite */
  #mount(run, step, cite) {
    document.title = `${run.question.slice(0, 80)} · vrag`;
    const box = composer({ offer: this.offer, after: run, placeholder: "Ask a follow-up", asked: (next, here) => this.#asked(next, here) });
    box.element.classList.add("compact");
    this.#box = box;
    const root = h("div", { id: "view", class: "view-run" });
    replace(this.#main, root);
    this.#run = mount(root, { id: run.id, step, cite, options: this.offer, onFollowUp: (_, question) => (question ? box.fill(question) : box.focus()), footer: box.element });
    if (!box.element.isConnected) this.#main.append(h("div", { class: "dock" }, box.element));
  }

  /** @param {Problem} problem */
  #noRun(problem) {
    showToolbar(this.#toolbar);
    const absent = problem.status === 404 || problem.status === 422; // the latter for what is no id at all
    const title = absent ? "Run not found" : problem.detail;
    const hint = absent ? "The run may have been deleted, or the link belongs to another server." : problem.hint;
    showNotice(this.#main, { id: "no-run", level: "h1", title, hint, actions: [h("a", { href: "#/", class: "button primary", text: "Ask a question" })] });
  }

  /** @param {import("./history.js").Run} run @param {boolean} here Whether the box that it was asked in is still shown. */
  #asked(run, here) {
    this.runs.put(run);
    if (here) navigate(runHash(run.id));
  }

  #runsChanged() {
    this.sidebar.show(this.#current);
    const run = this.#current && this.runs.find(this.#current);
    if (!run) return;
    const turns = this.runs.turns(run.session);
    showToolbar(this.#toolbar, { title: run.title, turns, current: run.id, share: () => copyLink(run, this.runs, location.href) });
    const running = turns.some((turn) => turn.state === "running");
    this.#box?.hold(running ? "Wait until the run has ended" : "");
  }

  #uploadsChanged() {
    this.sidebar.uploads(this.uploads.active.length);
    this.#documents?.update();
  }

  /** @param {import("./uploads.js").Upload} upload */
  async #uploaded(upload) {
    const failed = upload.state === "failed";
    if (!this.#documents) toast(failed ? `${upload.file} could not be added.` : `${upload.file} is ready.`, { kind: failed ? "danger" : "ok", hint: failed ? upload.message : "" });
    else announce(`${upload.file}: ${failed ? upload.message : "ready"}`);
    await this.#reload();
  }

  /** Loads what the server offers again, since its collections changed; what is away now is loaded another time. */
  async #reload() {
    try {
      await this.#load();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    }
  }

  async #load() {
    const before = this.offer;
    this.offer = await get("/options");
    const renamed = before.collections.map(nameOf).join("\n") !== this.offer.collections.map(nameOf).join("\n");
    const route = here();
    if (route.name === "documents" && renamed) this.#showDocuments(route.collection);
    else if (route.name === "ask" && before.collections.every(isEmpty)) this.#showAsk();
    else await this.#documents?.refresh(await get("/collections"));
  }

  /** @returns {string | null} The collection that takes files dropped now. */
  #target() {
    if (this.#documents) return this.#documents.target();
    const writable = this.offer.collections.filter((/** @type {any} */ one) => one.writable).map(nameOf);
    const chosen = this.#box?.collection();
    return chosen && writable.includes(chosen) ? chosen : (writable[0] ?? null);
  }

  /** @param {File[]} files @param {string | null} collection */
  #take(files, collection) {
    if (!collection) {
      toast("This server does not accept uploads.", { kind: "danger", hint: "None of its collections is writable." });
      return;
    }
    this.uploads.add(files, collection);
    if (!this.#documents) navigate(`#/documents?${new URLSearchParams({ collection })}`);
  }

  /** @param {boolean} away */
  #away(away) {
    const banner = element("away");
    if (banner.hidden !== away) return;
    banner.hidden = !away;
    banner.textContent = away ? "The server does not answer. The page tries again by itself." : "";
  }

  /** @param {KeyboardEvent} event A slash outside of a field goes to the question box. */
  #slash(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest("input, textarea, select, dialog, [contenteditable]")) return;
    event.preventDefault();
    if (this.#box) this.#box.focus();
    else navigate("#/");
  }
}

/** @param {string} id */
function element(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

const loading = () => h("p", { class: "loading" }, h("span", { class: "spinner" }), "Loading");

/** @param {{name: string}} one */
const nameOf = (one) => one.name;

/** @param {{documents: number}} one */
const isEmpty = (one) => one.documents === 0;
