/** Properties of the page's pure functions. Run by test_page_modules.py beside a copy of the modules in js/. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { fileName } from "./js/api.js";
import { rewriteForPage, rewriteRefusal } from "./js/messages.js";
import { describeOptions, followChosenModel, followUpOptions, selectOptions, storedOptions, storeOptions } from "./js/run-options.js";
import { verdict } from "./js/setup/model-test.js";
import { request } from "./js/composer.js";
import { placed, typeOf } from "./js/file-names.js";
import { byDay, conversations, dayName, isOf, matching, outcome, runFacts } from "./js/history.js";
import { bytes } from "./js/pictures.js";
import { citeHash, documentsHash, routeOf, runHash } from "./js/router.js";
import { kinds, statusText } from "./js/uploads.js";

const OFFER = {
  agents: [{ name: "vrag", title: "VRAG: one conversation" }, { name: "vimrag", title: "VimRAG" }],
  models: [{ name: "", title: "Without a model: quotes" }],
  collections: [{ name: "samples" }, { name: "mine" }],
  defaults: { agent: "vrag", model: "", collection: null, max_steps: null, top_k: null, thinking: "auto", crop_nodes: true, verify: "tell" },
  limits: { steps: 200, top_k: 100 },
};

const asked = (id, session, started, more = {}) => ({ id, session, started, question: `question ${id}`, answer: null, state: "finished", stop_reason: "answered", collection: null, ...more });

test("a hash names a route, and what names none is the question box", () => {
  assert.deepEqual(routeOf(runHash("a/b ?#é")), { name: "run", id: "a/b ?#é", step: null, cite: null });
  assert.deepEqual(routeOf("#/runs/x?step=3"), { name: "run", id: "x", step: 3, cite: null });
  assert.deepEqual(routeOf("#/runs/x?step=-3"), { name: "run", id: "x", step: null, cite: null });
  assert.deepEqual(routeOf(citeHash("a/b ?#é", 2)), { name: "run", id: "a/b ?#é", step: null, cite: 2 });
  for (const cite of ["0", "-1", "x", ""]) assert.equal(routeOf(`#/runs/x?cite=${cite}`).cite, null);
  const { params, ...documents } = routeOf(documentsHash("a&b=c"));
  assert.deepEqual(documents, { name: "documents", collection: "a&b=c" });
  assert.deepEqual([...params.keys()], ["collection"]);
  assert.deepEqual(routeOf("#/setup"), { name: "setup" });
  for (const hash of ["", "#", "#/", "#/runs", "#/runs/", "#/else", "#javascript:alert(1)"]) assert.equal(routeOf(hash).name, "ask");
  assert.equal(routeOf("#/runs/%E0%A4%A").id, "%E0%A4%A");
});

test("choices that are kept hold as far as the server still offers them", () => {
  const kept = { agent: "vimrag", model: "gone", collection: "mine", max_steps: 7, top_k: 1000, thinking: "loud", crop_nodes: false, verify: "maybe" };
  assert.deepEqual(selectOptions(OFFER, kept), { agent: "vimrag", model: "", collection: "mine", max_steps: 7, top_k: null, thinking: "auto", crop_nodes: false, verify: "tell" });
  assert.deepEqual(selectOptions(OFFER, {}), OFFER.defaults);
  const defaults = { ...OFFER, defaults: { ...OFFER.defaults, collection: "samples" } };
  assert.equal(selectOptions(defaults, { collection: null }).collection, null); // all was chosen
  assert.equal(selectOptions(defaults, { collection: "gone" }).collection, "samples");
});

test("a follow-up is asked as the run that it follows was, and as is usual where that is not offered any more", () => {
  const offer = { ...OFFER, models: [...OFFER.models, { name: "qwen/7b", title: "" }, { name: "Vrag-7B@main", title: "" }], defaults: { ...OFFER.defaults, model: "qwen/7b" } };
  const kept = { agent: "vrag", model: "", collection: "samples", max_steps: 7, thinking: "on" };
  const after = (run) => selectOptions(offer, followUpOptions(offer, { agent: "vimrag", model: "extractive", collection: "mine", ...run }, kept));
  assert.deepEqual(after({}), { agent: "vimrag", model: "", collection: "mine", max_steps: 7, top_k: null, thinking: "on", crop_nodes: true, verify: "tell" });
  assert.equal(after({ model: "chat:qwen/7b" }).model, "qwen/7b");
  assert.equal(after({ model: "local:Vrag-7B" }).model, "Vrag-7B@main");
  assert.equal(after({ model: "chat:gone" }).model, "qwen/7b");
  assert.equal(after({ collection: null }).collection, null); // all was searched
  assert.equal(after({ collection: "gone" }).collection, null);
  assert.equal(after({ agent: "gone" }).agent, "vrag");
  assert.deepEqual(kept, { agent: "vrag", model: "", collection: "samples", max_steps: 7, thinking: "on" });
});

test("what is stored is what differs from the defaults, so that a model that is chosen later is used", () => {
  const kept = new Map();
  globalThis.localStorage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  const choices = { ...OFFER.defaults, agent: "vimrag", verify: "off" };
  storeOptions(OFFER, choices);
  assert.deepEqual(storedOptions(), { agent: "vimrag", verify: "off" });
  const later = { ...OFFER, models: [...OFFER.models, { name: "eyes", title: "eyes" }], defaults: { ...OFFER.defaults, model: "eyes" } };
  assert.equal(selectOptions(later, storedOptions()).model, "eyes");
  storeOptions(later, { ...choices, model: "" });
  assert.equal(selectOptions(later, storedOptions()).model, "");
  followChosenModel();
  assert.equal(selectOptions(later, storedOptions()).model, "eyes");
  assert.equal(selectOptions(later, storedOptions()).agent, "vimrag");
});

test("a test is no success where one check failed, was late, or has limits", () => {
  const of = (...statuses) => verdict(statuses.map((status) => ({ status })), "finished")[1];
  assert.equal(of("ok", "ok", "skipped"), "ok");
  assert.equal(of("ok", "warning"), "mark");
  assert.equal(of("warning", "failed", "skipped"), "danger");
  assert.equal(verdict([{ status: "ok" }], "late")[1], "mark");
  assert.equal(verdict([], "")[1], "mark");
});

test("files are called by their folder where their name is not enough, and have a type by their name", () => {
  assert.equal(placed({ name: "a.pdf", folder: null }), "a.pdf");
  assert.equal(placed({ name: "a.pdf", folder: "reports/2023" }), "a.pdf in reports/2023");
  assert.deepEqual(["a.PDF", "a.b.docx", "none", "a.<img>", ".md"].map(typeOf), ["PDF", "DOCX", "", "", "MD"]);
});

test("folded options tell what differs", () => {
  const choices = { ...OFFER.defaults, max_steps: 1, thinking: "off", verify: "off" };
  assert.deepEqual(describeOptions(OFFER, choices), ["VRAG", "Without a model", "All collections", "1 step", "Thinking off", "Claims in doubt: Do not check"]);
});

test("a request leaves out what is left to the server", () => {
  const body = request("  why?\n", OFFER.defaults, {});
  assert.deepEqual(body, { question: "why?", agent: "vrag", model: "", thinking: "auto", crop_nodes: true, verify: "tell" });
  assert.equal(request("why?", OFFER.defaults, { session: "s", images: ["data:"] }).session, "s");
});

test("runs of a session are one conversation, its first question its title, the last one asked in on top", () => {
  const talks = conversations([asked("b", "a", 30), asked("c", "c", 20), asked("a", "a", 10)]);
  assert.deepEqual(talks.map((talk) => [talk.title, talk.runs.map((run) => run.id)]), [["question a", ["a", "b"]], ["question c", ["c"]]]);
  assert.equal(conversations([asked("a", "a", 10), asked("b", "b", 20)])[0].title, "question b");
});

test("days have names by the calendar, not by hours", () => {
  const now = new Date(2026, 2, 10, 0, 30);
  const at = (...parts) => dayName(new Date(...parts), now);
  assert.equal(at(2026, 2, 10, 0, 1), "Today");
  assert.equal(at(2026, 2, 9, 23, 59), "Yesterday");
  assert.equal(at(2026, 2, 4), "Wednesday");
  assert.equal(at(2026, 2, 3), "March 3");
  assert.equal(at(2025, 2, 3), "March 3, 2025");
  assert.equal(at(2026, 2, 11), "Today"); // a clock that runs ahead
  const talks = conversations([asked("a", "a", now.getTime() / 1000), asked("b", "b", now.getTime() / 1000 - 86_400)]);
  assert.deepEqual(byDay(talks, now).map(([day, own]) => [day, own.length]), [["Today", 1], ["Yesterday", 1]]);
});

test("a conversation has the title that it was given, and stands before the days when it is pinned", () => {
  const now = new Date(2026, 2, 10, 12, 0);
  const at = (days) => now.getTime() / 1000 - days * 86_400;
  const talks = conversations([asked("a", "a", at(5), { title: "Fares", pinned: true }), asked("b", "b", at(0))]);
  assert.deepEqual(byDay(talks, now).map(([day, own]) => [day, own.map((talk) => talk.title)]), [["Pinned", ["Fares"]], ["Today", ["question b"]]]);
  assert.deepEqual(matching(talks, "fares").map((talk) => talk.session), ["a"]);
});

test("runs of programs stand apart from those of people, and filters leave out the others", () => {
  const view = { asker: "people", text: "", agent: "", collection: "", owner: null };
  const seen = (more, changes) => isOf({ via: "page", agent: "vrag", collection: null, owner: "alice", ...more }, { ...view, ...changes });
  for (const [via, asker] of [["page", "people"], ["cli", "people"], ["api", "programs"], ["openai", "programs"], ["mcp", "programs"]]) {
    assert.equal(seen({ via }, {}), asker === "people");
    assert.equal(seen({ via }, { asker: "programs" }), asker === "programs");
  }
  assert.equal(seen({}, { agent: "vimrag" }), false);
  assert.equal(seen({ collection: "mine" }, { collection: "mine" }), true);
  assert.equal(seen({}, { collection: "mine" }), false);
  assert.equal(seen({}, { owner: "bob" }), false);
  assert.equal(seen({ owner: "" }, { owner: "" }), true);
  assert.equal(seen({}, { owner: "" }), false);
});

test("an entry tells what sets runs apart, and the user only of others", () => {
  const run = asked("a", "a", new Date(2026, 2, 10, 9, 5).getTime() / 1000, { agent: "vimrag", model: "chat:qwen", owner: "alice", via: "mcp", shared: true, collection: "mine" });
  assert.deepEqual(runFacts(run, OFFER, "alice"), ["09:05", "shared", "VimRAG", "qwen", "mine", "MCP client"]);
  assert.deepEqual(runFacts({ ...run, model: "extractive", shared: false, via: "page", agent: "gone" }, { ...OFFER, collections: [] }, "carol"), ["09:05", "alice", "gone", "without a model"]);
});

test("a search wants every word, in questions or answers, of any case", () => {
  const talks = conversations([asked("a", "a", 1, { question: "How FAST?", answer: "Six knots" }), asked("b", "b", 2)]);
  const found = (words) => matching(talks, words).map((talk) => talk.session);
  assert.deepEqual(found("knots fast"), ["a"]);
  assert.deepEqual(found("fast question"), []);
  assert.deepEqual(found("  "), ["b", "a"]);
});

test("an outcome never says answered of what was not", () => {
  assert.deepEqual(outcome(asked("a", "a", 1)), ["", "Answered"]);
  assert.equal(outcome(asked("a", "a", 1, { state: "running", stop_reason: null }))[0], "running");
  assert.equal(outcome(asked("a", "a", 1, { state: "interrupted", stop_reason: null }))[0], "failed");
  for (const stop_reason of ["cancelled", "abstained", "out_of_steps", "out_of_tokens", "out_of_budget", "model_error", "search_error", "fault"]) {
    assert.notEqual(outcome(asked("a", "a", 1, { stop_reason }))[0], "");
  }
});

test("sizes, file names, kinds of files and progress in words", () => {
  assert.deepEqual([0, 1023, 1024, 1536, 8 * 2 ** 20, 3 * 2 ** 40].map(bytes), ["0 B", "1023 B", "1.0 KB", "1.5 KB", "8.0 MB", "3072 GB"]);
  assert.equal(fileName('attachment; filename="a b.md"'), "a b.md");
  assert.equal(fileName("attachment; filename=\"a.md\"; filename*=UTF-8''%C3%A4.md"), "ä.md");
  assert.equal(fileName(null), null);
  assert.equal(kinds([".pdf", ".png", ".jpg", ".odd"]), "PDF, pictures, odd");
  const upload = { file: "a", collection: "c", state: "running", done: 2, total: 2, message: "", problems: [] };
  assert.equal(statusText(upload), "Reading: 2 of 2 pages");
  assert.equal(statusText({ ...upload, kind: "clip", total: 1, done: 0 }), "Reading: 0 of 1 clip");
  assert.equal(statusText({ ...upload, state: "sending", done: 1024, total: 2048 }), "Sending: 1.0 KB of 2.0 KB");
  assert.equal(statusText({ ...upload, total: null }), "Opening the file");
  assert.equal(statusText({ ...upload, state: "waiting", place: 3 }), "Uploaded. 3rd in the queue");
});

test("a refusal names what is on the page, and no field of a request", () => {
  const programs = "GET /openapi.json describes every route.";
  const told = (detail, hint = programs) => rewriteRefusal(detail, hint).join(" ");
  assert.equal(told("documents: It is empty."), "The chosen documents: it is empty. Change it, or load the page again.");
  assert.equal(told("top_k: It must be at least 1.", "Hits per query at most."), "The number of hits: it must be at least 1. Change it, or load the page again.");
  assert.equal(told("images[0]: It is not base64."), "The pictures: it is not base64. Change it, or load the page again.");
  assert.equal(told("some_field: It is missing."), "Part of the request: it is missing. Change it, or load the page again.");
  assert.equal(told("There is no such collection.", "Reload the list of documents."), "There is no such collection. Reload the list of documents.");
  assert.equal(told("Only one thing: it is late.", "Wait."), "Only one thing: it is late. Wait.");
  for (const detail of ["question: It is empty.", "x: Y.", "There is none."]) assert.doesNotMatch(told(detail), /openapi|GET|_/);
});

test("messages name what is on the page, and no settings or commands of the server", () => {
  const administrator = "The administrator of this server can change this.";
  for (const [text, shown] of [
    ["Page 2: A picture on the page is not read: OCR is off. A collection built with --ocr auto reads it.", "Page 2: A picture on the page is not read: OCR is off. A collection with OCR reads it."],
    ["The call of http://m took longer than 600 s. Raise VRAG_CALL_SECONDS.", `The call of http://m took longer than 600 s. ${administrator}`],
    ["The family of the model m-2.5 is unknown, and measuring is switched off (VRAG_PROBE). Boxes may be wrong. Set VRAG_PROFILE to its family, or measure it with `vrag doctor --coords`.", "The family of the model m-2.5 is unknown, and measuring is switched off. Boxes may be wrong. Choose the model family in Settings."],
    ["Checkpoints of the profile vimrag were trained on an instruction of their own; vrag's is sent instead. Fetch theirs with `vrag config fetch-instruction vimrag` and name the file with VRAG_INSTRUCTION.", `Checkpoints of the profile vimrag were trained on an instruction of their own; vrag's is sent instead. ${administrator}`],
    ["No model is set. Choose one in the settings of the page, or with --model or VRAG_MODEL.", "No model is set. Choose a model in Settings."],
    ["Name it with --base-url (VRAG_BASE_URL) or a provider prefix (ollama:, …).", "Choose a model in Settings."],
    ["Leave thinking to the server (VRAG_THINKING=auto), or switch it elsewhere: VRAG_THINKING_SWITCH.", "Set “Thinking” to “Model default” in the options of the question."],
    ["The administrator of this server can look for damage: vrag index verify", "The administrator of this server can look for damage."],
    ["The administrator of this server can set it as VRAG_MODEL.", administrator],
    ["Run: vrag index verify --repair. If that cannot repair it, restore a backup: vrag index restore", administrator],
    ["Its vectors are searched in Qdrant: add documents where the server runs, by vrag index.", `Its vectors are searched in Qdrant. ${administrator}`],
    ["One line.\nRaise VRAG_A.\nAnother.", `One line.\n${administrator}\nAnother.`],
  ]) assert.equal(rewriteForPage(text), shown);
  for (const text of ["", "Try later.", "vrag 7b is a model. It answered 500.", "The file VRAG.pdf (1.5 MB) is damaged!  So."]) assert.equal(rewriteForPage(text), text);
  assert.deepEqual(rewriteRefusal("There is no model.", "Set VRAG_MODEL."), ["There is no model.", "Choose a model in Settings."]);
});
