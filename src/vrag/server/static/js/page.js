/** The page after sign-in: the sidebar and the view that the route names. */

import { get, Problem } from "./api.js";
import { showAsk } from "./ask.js";
import { ChosenDocuments } from "./chosen.js";
import { composer } from "./composer.js";
import { announce, h, replace, toast } from "./dom.js";
import { receiveFiles } from "./drag-drop.js";
import { count } from "./format.js";
import { isUnderWay } from "./history.js";
import { showNotice } from "./overlays.js";
import { PartMissing, reloadButton } from "./part-loading.js";
import { loadAhead, loadDocuments, loadSetup, loadThread } from "./parts.js";
import { PastRuns } from "./past-runs.js";
import { here, navigate, onRoute, runHash } from "./router.js";
import { copyLink } from "./share.js";
import { abilityOf, buildSidebar } from "./sidebar.js";
import { showToolbar } from "./toolbar.js";
import { statusText, Uploads } from "./uploads.js";

/** @typedef {import("./router.js").Route} Route */

/** Time in which uploads that end together are loaded together, in milliseconds. */
const SETTLE = 300;

export class Page {
  #main = element("main");
  #toolbar = element("toolbar");
  /** @type {import("./composer.js").Composer | null} */
  #box = null;
  /** @type {import("./run/thread.js").Thread | null} */
  #thread = null;
  /** @type {ReturnType<typeof import("./documents/view.js").showDocuments> | null} */
  #documents = null;
  /** @type {ReturnType<typeof showAsk> | null} */
  #ask = null;
  /** @type {ReturnType<typeof import("./setup/setup.js").showSetup> | null} */
  #setup = null;
  /** @type {string | null} Id of the run that is open. */
  #current = null;
  /** Counts what was shown: what was asked for one view never fills a later one. */
  #visit = 0;
  #began = false;
  #isReloading = false;
  #isCheckingRole = false;
  #isRoleInDoubt = false;
  #chosen = new ChosenDocuments();
  /** Ends what the page listens to. */
  #closed = new AbortController();

  /** @param {any} offer @param {import("./past-runs.js").Session} session */
  constructor(offer, session) {
    const { signal } = this.#closed;
    this.offer = offer;
    this.runs = new PastRuns(session, { changed: () => this.#runsChanged(), away: (away) => this.#away(away), signal });
    this.uploads = new Uploads(offer.limits, { changed: () => this.#uploadsChanged(), finished: (upload) => this.#uploaded(upload), skipped: (files) => toast(`${count(files, "file")} skipped: the file type is not supported.`) });
    this.sidebar = buildSidebar(element("sidebar"), { runs: this.runs, offer: () => this.offer });
    receiveFiles({ target: () => this.#target(), reason: () => this.offer.no_uploads, take: (files, collection) => this.#take(files, collection), signal });
    element("skip").addEventListener("click", () => this.#main.focus());
    document.addEventListener("keydown", (event) => this.#slash(event), { signal });
    window.addEventListener("vrag:forbidden", () => this.#checkRole(), { signal });
  }

  open() {
    this.#runsChanged();
    this.runs.refresh();
    onRoute((route) => this.#show(route), this.#closed.signal);
    loadAhead();
  }

  close() {
    this.#closed.abort();
    this.#leave();
    this.runs.stop();
  }

  /** @param {Route} route */
  #show(route) {
    if (route.name === "run" && this.#thread?.has(route.id)) return this.#showTurn(route);
    if (route.name === "documents" && this.#documents?.follow(route.collection, route.params)) return;
    this.#leave();
    this.sidebar.mark(route.name);
    if (route.name === "run") this.#showRun(route);
    else if (route.name === "documents") this.#showDocuments(route);
    else if (route.name === "setup") this.#showSetup();
    else this.#showAsk(route.documents);
    this.#runsChanged();
    if (this.#began && route.name !== "ask") this.#main.focus({ preventScroll: true });
    this.#began = true;
  }

  #leave() {
    this.#visit++;
    this.#thread?.destroy();
    this.#setup?.close();
    this.#setup = null;
    this.#thread = this.#documents = this.#ask = this.#box = this.#current = null;
  }

  /** @param {string[]} [documents] Ids of those that are chosen now, if any. */
  #showAsk(documents = []) {
    document.title = "vrag";
    if (documents.length > 0) {
      this.#chosen.set(documents.map((id) => ({ id, name: "", collection: null })));
      history.replaceState(null, "", "#/"); // what is left out later does not come back
    }
    showToolbar(this.#toolbar);
    const typing = document.activeElement?.id === "first-box"; // see first.js
    this.#box = composer({ offer: this.offer, chosen: this.#chosen, asked: (run, here) => { this.#chosen.set([]); this.#asked(run, here); }, changed: () => this.#ask?.update() });
    this.#ask = showAsk(this.#main, { offer: this.offer, box: this.#box, uploads: this.uploads });
    if (typing || window.matchMedia("(hover: hover)").matches) this.#box.focus(); // elsewhere a keyboard would cover half of the page
  }

  async #showSetup() {
    document.title = "Settings · vrag";
    showToolbar(this.#toolbar);
    const visit = this.#visit;
    replace(this.#main, loading());
    try {
      const { showSetup } = await loadSetup();
      if (visit === this.#visit) this.#setup = showSetup(this.#main, { offer: () => this.offer, reload: () => this.#reload() });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (visit === this.#visit) showNotice(this.#main, { id: "no-setup", level: "h1", title: error.detail, hint: error.hint, actions: [reloadButton()] });
    }
  }

  /** @param {{collection: string | null, params: URLSearchParams}} route */
  async #showDocuments(route) {
    document.title = "Documents · vrag";
    showToolbar(this.#toolbar);
    const visit = ++this.#visit;
    replace(this.#main, loading());
    try {
      const [listing, { showDocuments }] = await Promise.all([get("/collections"), loadDocuments()]);
      if (visit === this.#visit) this.#documents = showDocuments(this.#main, { name: route.collection, params: route.params, listing, uploads: this.uploads, chosen: this.#chosen, reload: () => this.#reload() });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (visit !== this.#visit || error.status === 401) return;
      const again = error instanceof PartMissing ? reloadButton() : h("button", { type: "button", class: "primary", text: "Try again", on: { click: () => this.#showDocuments(route) } });
      showNotice(this.#main, { id: "no-documents-list", level: "h1", title: error.detail, hint: error.hint, actions: [again] });
    }
  }

  /** @param {Extract<Route, {name: "run"}>} route */
  async #showRun({ id, step, cite }) {
    const visit = this.#visit;
    this.#current = id;
    replace(this.#main, loading());
    try {
      const [run, { Thread }] = await Promise.all([this.runs.find(id) ?? get(`/runs/${encodeURIComponent(id)}`), loadThread()]);
      if (visit !== this.#visit) return;
      this.runs.put(run);
      this.#mount(run, Thread);
      this.#showTurn({ id, step, cite });
      if (run.session !== run.id) this.runs.loadSession(run.session);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (visit === this.#visit && error.status !== 401) this.#noRun(error);
    }
  }

  /** Shows the conversation of a run. @param {import("./history.js").Run} run @param {typeof import("./run/thread.js").Thread} Thread */
  #mount(run, Thread) {
    const chosen = new ChosenDocuments((run.documents ?? []).map((id) => ({ id, name: "", collection: run.collection })));
    const box = composer({ offer: this.offer, after: run, chosen, placeholder: "Ask a follow-up", asked: (next, here) => this.#asked(next, here) });
    box.element.classList.add("compact");
    this.#box = box;
    this.#thread = new Thread(this.#main, { offer: this.offer, box, mayChange: (one) => this.runs.mayChange(one), asked: (next) => this.#asked(next, true) });
  }

  /** Goes to a run in the conversation that is open. @param {{id: string, step: number | null, cite: number | null}} route */
  #showTurn({ id, step, cite }) {
    this.#current = id;
    this.#runsChanged();
    document.title = `${this.runs.find(id)?.question.slice(0, 80) ?? "Run"} · vrag`;
    this.#thread?.show(id, step, cite);
  }

  /** @param {Problem} problem */
  #noRun(problem) {
    showToolbar(this.#toolbar);
    const absent = problem.status === 404 || problem.status === 422; // the latter for what is no id at all
    const title = absent ? "Question not found" : problem.detail;
    const hint = absent ? `It may have been deleted, ${this.runs.session.has_users ? "is another user's and not shared, " : ""}or the link belongs to another server.` : problem.hint;
    showNotice(this.#main, { id: "no-run", level: "h1", title, hint, actions: [problem instanceof PartMissing ? reloadButton() : h("a", { href: "#/", class: "button primary", text: "Ask a question" })] });
  }

  /** @param {import("./history.js").Run} run @param {boolean} here Whether the box that it was asked in is still shown. */
  #asked(run, here) {
    this.runs.put(run);
    if (here) navigate(runHash(run.id));
  }

  #runsChanged() {
    this.sidebar.show(this.#current);
    const run = this.#current && this.runs.find(this.#current);
    if (!run || !this.#thread) return;
    const turns = this.runs.turns(run.session);
    this.#thread.update(turns);
    showToolbar(this.#toolbar, { title: run.title, turns, current: run.id, share: () => copyLink(run, this.runs, location.href) });
    const running = turns.some(isUnderWay);
    const foreign = !this.runs.mayChange(run) && "Another user's conversation: ask a new question";
    this.#box?.hold(foreign || (running ? "Wait until the answer is complete" : ""));
  }

  #uploadsChanged() {
    this.sidebar.uploads(this.uploads.active.length);
    this.#documents?.update();
  }

  /** @param {import("./uploads.js").Upload} upload */
  async #uploaded(upload) {
    const failed = upload.state === "failed";
    if (this.#documents) announce(`${upload.file}: ${failed ? statusText(upload) : "ready to ask"}`);
    else if (failed) toast(`${upload.file} could not be added.`, { kind: "danger", hint: statusText(upload) });
    else toast(`${upload.file} is ready to ask.`, { kind: "ok" });
    if (this.#isReloading) return; // what ends meanwhile is in the list then
    this.#isReloading = true;
    await new Promise((resolve) => setTimeout(resolve, SETTLE));
    this.#isReloading = false;
    await this.#reload();
  }

  /** Shows what the user may do now, if the role was changed since it was loaded. Called when the server refused something. */
  async #checkRole() {
    this.#isRoleInDoubt = true;
    if (this.#isCheckingRole) return;
    this.#isCheckingRole = true;
    try {
      while (this.#isRoleInDoubt) {
        this.#isRoleInDoubt = false; // until something is refused while this waits
        await this.#updateRole();
      }
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
    } finally {
      this.#isCheckingRole = false;
    }
  }

  async #updateRole() {
    const session = await get("/session");
    if (session.role === this.runs.session.role) return;
    this.runs.session = session;
    toast("Your role was changed.", { kind: "danger", hint: `You may now ${abilityOf(session)}.` });
    this.sidebar.identify();
    this.runs.refresh();
    await this.#showOffer();
  }

  /** Shows what the server offers now; a question that is being typed and ticked documents stay. */
  async #showOffer() {
    this.offer = await get("/options");
    this.#ask?.renew(this.offer);
    if (this.#documents) await this.#documents.refresh(await get("/collections"));
    if (this.#setup) this.#show(here());
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
    if (route.name === "documents" && renamed) this.#showDocuments(route);
    else if (route.name === "ask" && before.collections.every(isEmpty)) this.#ask?.renew(this.offer);
    else await this.#documents?.refresh(await get("/collections"));
  }

  /** @returns {string | null} The collection that takes files dropped now. */
  #target() {
    if (this.#documents) return this.#documents.target();
    const writable = this.offer.collections.filter((/** @type {any} */ one) => one.writable).map(nameOf);
    const chosen = this.#box?.collection();
    return chosen && writable.includes(chosen) ? chosen : (writable[0] ?? null);
  }

  /** @param {import("./dropped-files.js").PlacedFile[]} files @param {string | null} collection */
  #take(files, collection) {
    if (!collection) {
      const { no_uploads } = this.offer;
      toast(no_uploads ? "The files were not added." : "This server does not accept uploads.", { kind: "danger", hint: no_uploads || "None of its collections is writable." });
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
    banner.textContent = away ? "The server does not answer. Reconnecting automatically." : "";
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
