/** Properties of the viewer's pure functions. Run by test_page_modules.py beside a copy of the modules in js/. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { marksOn, numbersByItem } from "./js/viewer/cited-places.js";
import { indexAt, topsOf } from "./js/viewer/column.js";
import { firstFrom, pageOf } from "./js/viewer/find.js";
import { middle, openingPlace, openingScale } from "./js/viewer/opening-size.js";
import { typedPage } from "./js/viewer/page-field.js";
import { pictureFor } from "./js/viewer/page.js";

test("the elements of a column stand one below the other, and each place has one", () => {
  const heights = [30, 1, 500, 20];
  const tops = topsOf(heights, 10);
  assert.deepEqual([...tops], [10, 50, 61, 571, 601]);
  for (let place = -20; place < 700; place++) {
    const index = indexAt(tops, place);
    if (index > 0) assert.ok(tops[index] <= place);
    if (index < heights.length - 1) assert.ok(tops[index + 1] > place);
  }
  assert.equal(indexAt(topsOf([], 10), 5), 0);
});

test("a match is on the page that counts it", () => {
  const pages = [{ page: 2, matches: 3 }, { page: 5, matches: 1 }, { page: 9, matches: 2 }];
  const seen = Array.from({ length: 6 }, (_, at) => pageOf(pages, at)).map(({ page, within }) => [pages[page].page, within]);
  assert.deepEqual(seen, [[2, 0], [2, 1], [2, 2], [5, 0], [9, 0], [9, 1]]);
  assert.deepEqual([1, 2, 3, 5, 6, 9, 10].map((ordinal) => firstFrom(pages, ordinal)), [0, 0, 3, 3, 4, 4, 0]);
});

test("a page that is typed is the one of its number, or the next where it is missing", () => {
  const parts = [1, 2, 4, 7].map((ordinal) => ({ id: `x-${ordinal}`, kind: "page", ordinal }));
  assert.deepEqual(["1", " 2 ", "3", "4", "5", "7"].map((text) => typedPage(parts, text)), [0, 1, 2, 2, 3, 3]);
  for (const wrong of ["0", "8", "-1", "1.5", "", "x", "99999999999"]) assert.equal(typedPage(parts, wrong), null);
  assert.equal(typedPage([], "1"), null);
});

test("a printed number that is typed is the page that has it, a position the page that stands there", () => {
  const parts = ["i", "ii", undefined, "A-1", "2"].map((page_label, at) => ({ id: `x-${at}`, kind: "page", ordinal: at + 1, page_label }));
  assert.deepEqual(["i", " II ", "a-1", "2", "3"].map((text) => typedPage(parts, text)), [0, 1, 3, 1, 2]);
  assert.equal(typedPage(parts, "A-2"), null);
});

test("a picture is asked for in the size that is needed, and as stored where that is not much more", () => {
  const page = { id: "0-1", kind: "page", ordinal: 1, width: 4000, height: 4000 };
  assert.equal(pictureFor(page, 300_000).url, "items/0-1/image?max_pixels=400000");
  assert.equal(pictureFor(page, 1_000_000).url, "items/0-1/image?max_pixels=1600000");
  assert.equal(pictureFor(page, 7_000_000).url, "items/0-1/image");
  assert.equal(pictureFor({ ...page, width: 1224, height: 1584 }, 500_000).url, "items/0-1/image");
  assert.equal(pictureFor({ ...page, width: 500, height: 500 }, 1_000).url, "items/0-1/image");
  const levels = [1, 400_001, 1_600_001, 6_400_001].map((pixels) => pictureFor(page, pixels).level);
  assert.deepEqual(levels, [...levels].sort((a, b) => a - b));
});

const box = [0.1, 0.1, 0.2, 0.2];
const places = [
  { item: "a-1", label: "1", boxes: [{ box, kind: "mark" }, { box, kind: "answer" }] },
  { item: "b-1", label: "2", boxes: [{ box }] },
  { item: "a-1", label: "3", boxes: [] },
];

test("all citations of a page are drawn with their numbers, or the one that is looked at", () => {
  const all = marksOn("a-1", places, places[0], true);
  assert.deepEqual(all.map(({ number, here }) => [number, here]), [["1", true], ["", true], ["3", false]]);
  assert.deepEqual(all[2].box, [0, 0, 1, 1]); // the whole page
  const one = marksOn("a-1", places, places[0], false);
  assert.deepEqual(one.map(({ number, here }) => [number, here]), [["1", true], ["", true]]);
  assert.deepEqual(marksOn("b-1", places, places[0], false), []);
  assert.deepEqual(marksOn("b-1", places, places[0], true).map(({ here }) => here), [false]);
});

test("what is opened without citations is drawn without a number", () => {
  const place = { item: "a-1", boxes: [{ box }] };
  assert.deepEqual(marksOn("a-1", [], place, true).map(({ number, here }) => [number, here]), [["", true]]);
  assert.deepEqual(marksOn("a-1", [], { item: "a-1" }, true), []);
});

test("each page has the numbers of its citations", () => {
  assert.deepEqual([...numbersByItem(places)], [["a-1", ["1", "3"]], ["b-1", ["2"]]]);
});

const sheet = { width: 1190, height: 1684 };

test("a page opens as large as its words are easy to read, with its place in the width where that can be read", () => {
  const place = openingPlace([{ box: [0.1, 0.1, 0.9, 0.3] }, { box: [0.7, 0.2, 0.75, 0.21], kind: "answer" }]);
  assert.deepEqual(place, { outer: [0.1, 0.1, 0.9, 0.3], words: [0.7, 0.2, 0.75, 0.21], high: 0.21 - 0.2 });
  const scales = [300, 500, 800, 2000].map((width) => openingScale(sheet, { width, height: 700 }, place));
  for (const scale of scales) assert.ok(scale * 0.01 * sheet.height >= 7.49);
  assert.ok(Math.abs(scales[1] * 0.8 * sheet.width - 500) < 1); // the place fills the width
  assert.ok(scales[3] * 0.01 * sheet.height <= 11.01);
  const high = openingScale(sheet, { width: 2000, height: 3000 }, place);
  assert.equal(high, 2000 / 1190); // the whole page may be larger than that
});

test("a page that is opened for nothing fits the width, and is no larger than easy to read", () => {
  assert.equal(openingScale(sheet, { width: 358, height: 700 }, null), 358 / 1190);
  assert.ok(openingScale(sheet, { width: 3000, height: 700 }, null) * sheet.width < 800);
  assert.equal(openingPlace([]), null);
});

test("words of an unlikely size do not tell the size of a text", () => {
  const of = (high) => openingScale(sheet, { width: 900, height: 700 }, { outer: [0.4, 0.4, 0.5, 0.5], words: [0.4, 0.4, 0.5, 0.4 + high], high });
  assert.equal(of(0.2), of(0));
  assert.equal(of(0.001), of(0));
  assert.notEqual(of(0.012), of(0));
});

test("in the middle is the place, or where there is no room for it, the words of the answer", () => {
  const place = { outer: [0.1, 0.2, 0.9, 0.4], words: [0.7, 0.3, 0.8, 0.31], high: 0.01 };
  assert.equal(middle(place, 1, 1000, 300), 0.30000000000000004 * 1000);
  assert.equal(middle(place, 0, 1000, 300), 750);
  assert.equal(middle({ ...place, words: null }, 0, 1000, 300), 250); // its beginning
});
