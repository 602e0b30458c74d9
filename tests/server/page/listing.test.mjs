/** The list of documents: what of it is shown in which order, and that its address says so. */

import assert from "node:assert/strict";
import { test } from "node:test";

const { isFiltered, paramsOf, shownOf, stateOf, typesOf } = await import("./js/documents/listing.js");
const { extentOf, placed, plainName } = await import("./js/file-names.js");
const { overall } = await import("./js/uploads.js");

const USUAL = stateOf(new URLSearchParams());
const one = (name, folder = "", more = {}) => ({ id: name, name, folder, size: 1, modified: 1, status: "ready", items: 1, kind: "page", first: null, seconds: null, problems: [], uploaded: false, ...more });
const names = ({ folders, rows }) => [...folders.map(({ name }) => `${name}/`), ...rows.map(({ name }) => name)];
const FILES = [one("b10.pdf"), one("b9.pdf", "", { size: 9, items: 3 }), one("a.md", "x/y", { status: "failed", modified: 5 }), one("c.pdf", "x"), one("d.pdf", "xy")];

test("a folder shows what lies in it, folders first, numbers in their order", () => {
  assert.deepEqual(names(shownOf(FILES, USUAL)), ["x/", "xy/", "b9.pdf", "b10.pdf"]);
  assert.deepEqual(names(shownOf(FILES, { ...USUAL, folder: "x" })), ["y/", "c.pdf"]);
  assert.equal(shownOf(FILES, USUAL).folders[0].documents.length, 2);
});

test("filters look below the folder, and every word has to be there", () => {
  assert.deepEqual(names(shownOf(FILES, { ...USUAL, words: "X PDF" })), ["c.pdf", "d.pdf"]);
  assert.deepEqual(names(shownOf(FILES, { ...USUAL, folder: "x", words: "pdf" })), ["c.pdf"]);
  assert.deepEqual(names(shownOf(FILES, { ...USUAL, type: "MD" })), ["a.md"]);
  assert.deepEqual(names(shownOf(FILES, { ...USUAL, status: "failed" })), ["a.md"]);
  assert.equal(isFiltered({ ...USUAL, words: "  " }), false);
});

test("every order can be reversed, and begins with the most but for names", () => {
  const first = (sort, reversed = false) => shownOf(FILES, { ...USUAL, words: ".", sort, reversed }).rows[0].name;
  assert.deepEqual(["name", "modified", "size", "pages"].map((sort) => first(sort)), ["a.md", "a.md", "b9.pdf", "b9.pdf"]);
  for (const sort of ["name", "modified", "size", "pages"]) {
    const rows = shownOf(FILES, { ...USUAL, words: ".", sort }).rows;
    assert.deepEqual(shownOf(FILES, { ...USUAL, words: ".", sort, reversed: true }).rows, rows.toReversed());
  }
});

test("an address gives the list that it was made of, and says nothing of what is as usual", () => {
  const state = { folder: "x/y", words: "a&b", type: "PDF", status: "failed", sort: "size", reversed: true, view: "grid" };
  assert.deepEqual(stateOf(new URLSearchParams(paramsOf(state))), state);
  assert.deepEqual(paramsOf(USUAL), {});
  assert.deepEqual(stateOf(new URLSearchParams("sort=evil&view=odd")), USUAL);
});

test("types are told with their numbers, names without their folders, sizes in the words of people", () => {
  assert.deepEqual(typesOf(FILES), [["PDF", 4], ["MD", 1]]);
  assert.equal(plainName({ name: "2023／q1／a.pdf" }), "a.pdf");
  assert.equal(placed({ name: "2023／a.pdf", folder: "2023" }), "a.pdf in 2023");
  assert.equal(extentOf({ kind: "page", items: 1200 }), "1,200 pages");
  assert.equal(extentOf({ kind: "clip", items: 3, seconds: 250 }), "3 clips, 4:10 min");
  assert.equal(extentOf({ kind: "clip", items: 1, seconds: 3661 }), "1 clip, 1:01:01 h");
});

test("progress of all uploads counts what is sent and what is read", () => {
  const upload = (state, more = {}) => ({ state, size: 100, done: 0, total: 100, ...more });
  assert.deepEqual(overall([]), { ended: 0, share: 0 });
  assert.deepEqual(overall([upload("sending", { done: 100 })]), { ended: 0, share: 0.5 });
  assert.deepEqual(overall([upload("running", { done: 5, total: 10 })]), { ended: 0, share: 0.75 });
  assert.deepEqual(overall([upload("finished"), upload("failed"), upload("queued")]), { ended: 2, share: 2 / 3 });
});
