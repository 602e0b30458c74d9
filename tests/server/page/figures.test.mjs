/** Rectangles over pictures. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "./dom.mjs";

install();
const { rectangle } = await import("./js/run/figures.js");
const kinds = (box, how) => rectangle(box, how).className;

test("the line of a rectangle at the edge of its picture is drawn within it", () => {
  for (const box of [[0, 0.2, 0.5, 0.5], [0.2, 0.004, 0.5, 0.5], [0.2, 0.2, 1, 0.5], [0.2, 0.2, 0.5, 0.996], [0, 0.2, 1, 0.4]]) assert.equal(kinds(box), "box box-mark box-edge");
  assert.equal(kinds([0.2, 0.2, 0.5, 0.5]), "box box-mark");
  assert.equal(kinds([0, 0, 1, 1]), "box box-mark box-whole");
  assert.equal(kinds([0.2, 0.2, 1, 1], { content: [0.5, 0.5] }), "box box-mark"); // the margin is beside it
});
