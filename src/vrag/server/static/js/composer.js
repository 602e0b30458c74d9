/** The question box: large on the first page, compact under a run. Enter asks, Shift+Enter breaks a line. */

import { post, Problem } from "./api.js";
import { describeOptions, followUpOptions, optionFields, selectOptions, storedOptions, storeOptions } from "./run-options.js";
import { ChosenDocuments } from "./chosen.js";
import { chosenTray } from "./chosen-tray.js";
import { announce, h, icon, replace } from "./dom.js";
import { carriesFiles, isPicture, Pictures } from "./pictures.js";

const UNSENT = new Problem(0, "The server does not answer. Your question is still here.", "Ask again when the server is back.");

/**
 * @typedef {object} Composer
 * @property {HTMLElement} element
 * @property {() => void} focus
 * @property {(text: string) => void} fill
 * @property {(reason: string) => void} hold Why nothing can be asked now; empty when it can.
 * @property {() => string | null} collection What is chosen; null for all.
 * @property {() => import("./chosen.js").ChosenDocument[]} documents Those that are chosen; none for all.
 * @property {() => void} choose Opens the options, at the model.
 * @property {(text: string, urls: readonly string[]) => void} refill Puts a question and its pictures, as data URLs, in the place of what is in the box.
 */

/**
 * @param {object} how
 * @param {any} how.offer What the server offers.
 * @param {{session: string, agent: string, model: string, collection: string | null}} [how.after] The run that it follows: its agent, model and collection are asked again.
 * @param {ChosenDocuments} [how.chosen] The documents that are asked, if not all.
 * @param {string} [how.placeholder]
 * @param {(run: any, here: boolean) => void} how.asked Called with the run that began, and whether the box is still shown.
 * @param {() => void} [how.changed] Called when an option changed.
 * @returns {Composer}
 */
export function composer({ offer, after, chosen = new ChosenDocuments([]), placeholder = "Ask a question about your documents", asked, changed }) {
  const session = after?.session;
  const choices = selectOptions(offer, after ? followUpOptions(offer, after, storedOptions()) : storedOptions());
  const refusal = h("div", { class: "refusal", role: "alert", hidden: true });
  const draft = `vrag.draft.${session ?? ""}`; // survives a reload and the sign-in page
  let held = "";
  let busy = false;

  const pictures = new Pictures(offer.limits, { refuse: (sentence) => refuse(new Problem(422, sentence)), changed: () => update() });
  const box = /** @type {HTMLTextAreaElement} */ (
    h("textarea", { id: "ask-box", rows: 1, dir: "auto", placeholder, value: sessionStorage.getItem(draft) ?? "", "aria-label": session ? "Follow-up question" : "Question", maxlength: offer.limits.question_chars, enterkeyhint: "send" })
  );
  const send = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", id: "ask-button", class: "primary square", "aria-label": "Ask", title: "Ask (Enter)" }, icon("send")));
  const summary = h("span", { class: "clip" });
  const row = optionFields(offer, choices, () => {
    if (!after) storeOptions(offer, choices); // what one conversation is asked with is not what the next one is to begin with
    update();
    changed?.();
  });
  row.id = "options";
  row.hidden = true;
  const fold = h("button", { type: "button", id: "options-button", class: "quiet fold", "aria-expanded": false, "aria-controls": row.id, title: "Options" }, icon("sliders"), h("span", { class: "hidden-text", text: "Options: " }), summary, icon("down"));

  const choice = chosenTray(chosen, () => { update(); changed?.(); });

  const element = h(
    "form",
    { class: "composer", id: "composer", "aria-label": session ? "Ask a follow-up" : "Ask", dataset: session ? { session } : {} },
    h("div", { class: "composer-box" }, choice.element, pictures.tray, box, h("div", { class: "composer-foot" }, pictures.button(), fold, h("span", { class: "grow" }), send), row),
    refusal,
  );

  const update = () => {
    fit(box);
    choice.show();
    replace(summary, describeOptions(offer, choices).join(" · "));
    send.disabled = busy || held !== "" || box.value.trim() === "";
    send.title = held || "Ask (Enter)";
    element.classList.toggle("busy", busy);
  };
  const refuse = (/** @type {Problem} */ problem) => {
    refusal.hidden = false;
    replace(refusal, icon("warn"), h("div", h("p", { dir: "auto", text: problem.detail }), problem.hint && h("p", { class: "soft", dir: "auto", text: problem.hint })));
  };
  const opened = (/** @type {boolean} */ open) => {
    row.hidden = !open;
    fold.setAttribute("aria-expanded", String(open));
  };
  const changedText = () => {
    sessionStorage.setItem(draft, box.value);
    update();
  };
  const fill = (/** @type {string} */ text) => {
    box.value = text;
    changedText();
    box.focus();
  };
  const refill = (/** @type {string} */ text, /** @type {readonly string[]} */ urls) => {
    pictures.urls = urls;
    fill(text);
  };
  const submit = async () => {
    if (send.disabled) return;
    refusal.hidden = true;
    busy = true;
    update();
    try {
      const run = await post("/runs", request(box.value, choices, { session, images: pictures.urls, chosen }));
      box.value = "";
      sessionStorage.removeItem(draft);
      pictures.clear();
      announce("Asked");
      asked(run, element.isConnected);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status !== 401) refuse(error.status === 0 ? UNSENT : error);
    } finally {
      busy = false;
      update();
    }
  };

  element.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
  box.addEventListener("input", changedText);
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  fold.addEventListener("click", () => opened(row.hidden));
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || row.hidden) return;
    event.stopPropagation();
    opened(false);
    fold.focus();
  });
  receivePictures(element, box, pictures);
  update();

  return {
    element,
    focus: () => box.focus({ preventScroll: false }),
    fill,
    hold: (reason) => { held = reason; update(); },
    collection: () => choices.collection,
    documents: () => chosen.list,
    choose: () => { opened(true); /** @type {HTMLElement | null} */ (row.querySelector("#choice-model"))?.focus(); },
    refill,
  };
}

/**
 * The body of POST /runs.
 * @param {string} question
 * @param {import("./run-options.js").Choices} choices
 * @param {{session?: string, images?: readonly string[], chosen?: {list: {id: string}[], collection: string | null}}} more
 */
export function request(question, choices, { session, images = [], chosen }) {
  const documents = chosen?.list.length ? { documents: chosen.list.map((one) => one.id), collection: chosen.collection } : {};
  const body = { question: question.trim(), ...choices, ...documents, ...(session && { session }), ...(images.length && { images }) };
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null));
}

/** @param {HTMLTextAreaElement} box */
function fit(box) {
  if (CSS.supports("field-sizing", "content")) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

/** @param {HTMLElement} element @param {HTMLElement} box @param {Pictures} pictures */
function receivePictures(element, box, pictures) {
  box.addEventListener("paste", (event) => {
    const files = [...(event.clipboardData?.files ?? [])].filter(isPicture);
    if (files.length === 0) return;
    event.preventDefault();
    pictures.add(files);
  });
  element.addEventListener("dragover", (event) => {
    if (!carriesFiles(event.dataTransfer)) return;
    event.preventDefault();
    element.classList.add("over");
  });
  element.addEventListener("dragleave", () => element.classList.remove("over"));
  element.addEventListener("drop", (event) => {
    const files = [...(event.dataTransfer?.files ?? [])];
    element.classList.remove("over");
    if (!files.some(isPicture)) return; // a document: the page takes it into the collection
    event.preventDefault();
    event.stopPropagation();
    pictures.add(files);
  });
}
