/** A graph as a column: every node and line of it, readable, in order, nothing over anything else. */

import assert from "node:assert/strict";
import { test } from "node:test";

const { column, isColumn, READABLE } = await import("./js/run/graph-column.js");

const node = (id, height = 60) => ({ id, kind: "search", title: id, query: [], summary: [], x: 0, y: 0, width: 236, height, leads: false, pending: false });
const edge = (parent, child) => ({ parent, child, path: "", leads: false });
const numbers = (path) => path.match(/[MLHVQ][^MLHVQ]*/g).flatMap((part) => part.slice(1).trim().split(/[ ,]+/).map(Number));

/** Graphs of some nodes with any edges from earlier to later ones, the same on every run. */
function* graphs() {
  let state = 7;
  const random = (below) => (state = (state * 1103515245 + 12345) % 2147483648) % below;
  for (let run = 0; run < 60; run++) {
    const nodes = Array.from({ length: 1 + random(14) }, (_, index) => node(`n${index}`, 40 + random(120)));
    const edges = nodes.flatMap((child, to) => nodes.slice(0, to).filter(() => random(3) === 0).map((parent) => edge(parent.id, child.id)));
    yield { width: 900, height: 900, nodes, edges };
  }
}

test("nodes stand below each other, in order, with room between them", () => {
  for (const graph of graphs()) {
    const { nodes, height, width } = column(graph);
    assert.deepEqual(nodes.map((one) => one.id), graph.nodes.map((one) => one.id));
    nodes.forEach((one, index) => {
      assert.equal(one.x + one.width, width);
      assert.ok(index === 0 ? one.y === 0 : one.y >= nodes[index - 1].y + nodes[index - 1].height + 20);
      assert.ok(one.y + one.height <= height);
    });
  }
});

test("every line goes from its parent to its child, inside of the drawing and beside what is between", () => {
  for (const graph of graphs()) {
    const { nodes, edges, width } = column(graph);
    assert.deepEqual(edges.map((one) => [one.parent, one.child]), graph.edges.map((one) => [one.parent, one.child]));
    const place = new Map(nodes.map((one, index) => [one.id, { one, index }]));
    for (const { parent, child, path } of edges) {
      const [from, to] = [place.get(parent), place.get(child)];
      assert.ok(numbers(path).every((value) => value >= 0), path);
      const straight = to.index === from.index + 1;
      assert.equal(path.includes("Q"), !straight);
      const [x, y] = numbers(path);
      assert.ok(straight ? y === from.one.y + from.one.height : x === from.one.x && y < from.one.y + from.one.height && y > from.one.y);
      assert.ok(x <= width);
    }
  }
});

test("lines that pass the same place have places of their own", () => {
  for (const graph of graphs()) {
    const { nodes, edges } = column(graph);
    const place = new Map(nodes.map((one, index) => [one.id, index]));
    const bows = edges.filter((one) => one.path.includes("Q")).map((one) => ({ from: place.get(one.parent), to: place.get(one.child), x: Number(/Q(\S+)/.exec(one.path)[1]) }));
    for (const a of bows) for (const b of bows) if (a !== b && a.from < b.to && b.from < a.to) assert.notEqual(a.x, b.x);
  }
});

test("a column is for narrow frames in which the layers cannot be read", () => {
  assert.ok(isColumn({ width: 500 }, 350));
  assert.ok(!isColumn({ width: 350 / READABLE }, 350));
  assert.ok(!isColumn({ width: 5000 }, 900));
  assert.ok(!isColumn({ width: 500 }, 0), "nothing is known of the frame yet");
});

test("an empty graph is an empty column", () => {
  assert.deepEqual(column({ width: 0, height: 0, nodes: [], edges: [] }), { width: 0, height: 0, nodes: [], edges: [] });
});
