/** The nodes of a graph below each other, for frames in which its layers would be too small to read. Pure. */

/** @typedef {import("./graph.js").Drawing} Drawing */
/** @typedef {{edge: Drawing["edges"][number], from: number, to: number, lane: number}} Bow */

/** Distances in pixels: between nodes, between lines beside them, and of the end of such a line from the corner of its node. */
const [GAP, LANE, END] = [34, 13, 20];
const BEND = 7;
/** Below this scale the text of a graph cannot be read. */
export const READABLE = 0.88;
/** Frames up to this width show a column where the layers do not fit. */
const NARROW = 560;

/** Whether a graph is shown as a column in a frame. @param {Drawing} drawing @param {number} room Pixels across. */
export function isColumn(drawing, room) {
  return room > 0 && room < NARROW && drawing.width * READABLE > room;
}

/**
 * The drawing as a column, in the order in which the nodes were made: parents stand above their children.
 * A line between neighbours is straight; the others pass the nodes on their left side.
 * @param {Drawing} drawing
 * @returns {Drawing}
 */
export function column(drawing) {
  const place = new Map(drawing.nodes.map((node, index) => [node.id, index]));
  const bows = inLanes(drawing.edges.map((edge) => ({ edge, from: place.get(edge.parent) ?? 0, to: place.get(edge.child) ?? 0, lane: -1 })));
  const lanes = Math.max(-1, ...bows.map((bow) => bow.lane)) + 1;
  const left = lanes > 0 ? lanes * LANE + BEND + 4 : 0;
  let below = 0;
  const nodes = drawing.nodes.map((node) => {
    const y = below;
    below += node.height + GAP;
    return { ...node, x: left, y };
  });
  const width = left + Math.max(0, ...nodes.map((node) => node.width));
  const edges = bows.map(({ edge, from, to, lane }) => ({ ...edge, path: lane < 0 ? straight(nodes[from], nodes[to]) : bowed(nodes[from], nodes[to], left - BEND - lane * LANE) }));
  return { ...drawing, width, height: Math.max(0, below - GAP), nodes, edges };
}

/** Short lines first, so that they pass closest to the nodes; two that pass the same place have different lanes. @param {Bow[]} bows */
function inLanes(bows) {
  /** @type {Bow[]} */
  const laid = [];
  for (const bow of bows.toSorted((a, b) => a.to - a.from - (b.to - b.from))) {
    if (bow.to === bow.from + 1) continue;
    const taken = new Set(laid.filter((one) => one.from < bow.to && bow.from < one.to).map((one) => one.lane));
    bow.lane = 0;
    while (taken.has(bow.lane)) bow.lane++;
    laid.push(bow);
  }
  return bows;
}

/** @param {import("./graph.js").DrawnNode} parent @param {import("./graph.js").DrawnNode} child */
function straight(parent, child) {
  const x = child.x + child.width / 2;
  return `M${x} ${parent.y + parent.height}V${child.y}M${x - 4.5} ${child.y - 8}L${x} ${child.y - 1}L${x + 4.5} ${child.y - 8}`;
}

/** @param {import("./graph.js").DrawnNode} parent @param {import("./graph.js").DrawnNode} child @param {number} x */
function bowed(parent, child, x) {
  const [from, to, side] = [parent.y + parent.height - END, child.y + END, child.x];
  return `M${side} ${from}H${x + BEND}Q${x} ${from} ${x} ${from + BEND}V${to - BEND}Q${x} ${to} ${x + BEND} ${to}H${side - 1}M${side - 8} ${to - 4.5}L${side - 1} ${to}L${side - 8} ${to + 4.5}`;
}
