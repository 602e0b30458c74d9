/** The memory graph as it grows: nodes that can be opened, edges, and what the answer rests on. Places come from the server. */

import { h, icon, iconButton, replace, s } from "../dom.js";
import { count } from "../format.js";
import { Canvas, MARGIN } from "./canvas.js";
import { seenAt } from "./entries.js";
import { fileUrl, itemUrl } from "./figures.js";
import { column, isColumn } from "./graph-column.js";

/** @typedef {import("./reducer.js").State} State */
/** @typedef {{id: string, kind: string, title: string, query: string[], summary: string[], thumbs?: number, x: number, y: number, width: number, height: number, leads: boolean, pending: boolean}} DrawnNode */
/** @typedef {{width: number, height: number, nodes: DrawnNode[], edges: {parent: string, child: string, path: string, leads: boolean}[]}} Drawing */

const PADDING = 14;
const THUMB = 42;
const THUMBS = 4;
/** Nodes up to which the frame of a graph that is finished is as high as the graph. */
const FEW = 12;
const KEYS = "Arrow keys go from node to node, with Shift they move the graph. Plus and minus change its size, 0 fits it.";
/** Height of a line of the head, of the query and of the summary, as `vrag.render.graph_drawing` counts them. */
const [HEAD, QUERY, SUMMARY] = [16, 18, 15.5];

/** The graph, drawn. */
export class GraphView {
  /** @type {Map<string, {element: SVGElement, mark: string}>} */
  #nodes = new Map();
  /** @type {Map<string, SVGElement>} */
  #edges = new Map();
  #context;
  /** As the server drew it. @type {Drawing | null} */
  #given = null;
  /** As it is shown. @type {Drawing | null} */
  #drawing = null;
  #isColumn = false;
  /** @type {State | null} */
  #state = null;
  #chosen = "";
  #over = false;

  /** @param {import("./entries.js").RunContext} context */
  constructor(context) {
    this.#context = context;
    this.canvas = new Canvas("Memory graph", () => this.#arrange());
    this.canvas.svg.setAttribute("aria-description", KEYS);
    this.lines = s("g", { class: "edges", "aria-hidden": true });
    this.cards = s("g", { class: "nodes" });
    this.canvas.layer.append(this.lines, this.cards);
    this.empty = h("p", { class: "graph-empty", text: "The graph begins with the first search." });
    this.full = iconButton("full", "Full screen", { on: { click: () => (this.screen.open ? this.screen.close() : this.#enlarge()) } });
    this.canvas.controls.append(this.full);
    this.legend = h("p", { class: "graph-legend", hidden: true });
    this.body = h("div", { class: "graph-body" }, h("div", { class: "graph-head" }, this.legend, this.canvas.controls), this.canvas.element);
    this.screen = /** @type {HTMLDialogElement} */ (h("dialog", { class: "graph-screen", "aria-label": "Memory graph", on: { close: () => this.#reduce(), keydown: keepEscape } }));
    this.element = h("div", { class: "graph" }, this.body, this.empty, this.screen);
    this.cards.addEventListener("keydown", (event) => this.#key(/** @type {KeyboardEvent} */ (event)));
  }

  destroy() {
    this.screen.close();
    this.canvas.destroy();
  }

  /**
   * Shows a drawing; null before there is one.
   * @param {Drawing | null} drawing
   * @param {State} state
   * @param {boolean} over Whether it grows no more.
   */
  update(drawing, state, over) {
    this.empty.hidden = drawing !== null;
    if (drawing === this.#given && over === this.#over) return;
    const grown = this.#given !== null;
    this.#over = over;
    this.#given = drawing;
    this.#state = state;
    this.#draw(grown);
    const last = this.#drawing?.nodes.at(-1);
    if (last && grown && !over) this.canvas.reveal(last);
  }

  /** Lays the drawing out for the frame. @param {boolean} grown */
  #draw(grown) {
    this.#isColumn = this.#fitsColumn();
    const drawing = this.#given && this.#isColumn ? column(this.#given) : this.#given;
    this.#drawing = drawing;
    this.#drawEdges(drawing?.edges ?? [], grown);
    this.#drawNodes(drawing?.nodes ?? [], /** @type {State} */ (this.#state), grown);
    this.#explain(drawing?.nodes ?? []);
    if (drawing === null) return;
    this.canvas.svg.setAttribute("aria-label", `Memory graph, ${count(drawing.nodes.length, "node")}`);
    this.canvas.resize(drawing.width, drawing.height, drawing.nodes[0] ?? { x: 0, y: 0, width: drawing.width, height: 0 });
    this.canvas.follow(this.#over, this.#over && (this.#isColumn || drawing.nodes.length <= FEW));
  }

  #fitsColumn() {
    return this.#given !== null && isColumn(this.#given, this.canvas.element.clientWidth - 2 * MARGIN);
  }

  /** Another width of the frame may need another layout. */
  #arrange() {
    if (this.#fitsColumn() !== this.#isColumn) this.#draw(false);
  }

  /** Says what the looks of nodes mean, once there is an answer. @param {DrawnNode[]} nodes */
  #explain(nodes) {
    const leading = nodes.filter((node) => node.leads).length;
    this.body.classList.toggle("over", this.#over);
    this.body.classList.toggle("answered", leading > 0);
    this.legend.hidden = leading === 0;
    if (leading === 0) return;
    const sign = (/** @type {string} */ kind) => h("span", { class: `graph-sign ${kind}`, "aria-hidden": true });
    const rest = nodes.length - leading;
    replace(this.legend, h("span", sign("leads"), `The answer rests on ${rest ? `${leading} of ${nodes.length} nodes` : "all nodes"}`), rest > 0 && h("span", sign("rest"), "Others"));
  }

  /** Fills the window. */
  #enlarge() {
    this.screen.append(this.body);
    this.screen.showModal();
    this.#name("Leave full screen", "close");
    this.canvas.fit();
    this.full.focus();
  }

  /** Goes back to its place in the page. */
  #reduce() {
    if (this.body.parentElement === this.element) return;
    this.element.prepend(this.body);
    this.#name("Full screen", "full");
    this.canvas.fit();
    this.full.focus();
  }

  /** @param {string} label @param {string} sign */
  #name(label, sign) {
    this.full.title = label;
    this.full.setAttribute("aria-label", label);
    replace(this.full, icon(sign));
  }

  /**
   * Marks the node whose panel is open.
   * @param {string} id Empty for none.
   */
  choose(id) {
    this.#chosen = id;
    for (const [name, { element }] of this.#nodes) element.setAttribute("aria-pressed", String(name === id));
  }

  /** @param {string} id */
  focus(id) {
    this.#nodes.get(id)?.element.focus();
  }

  /** @param {Drawing["edges"]} edges @param {boolean} grown */
  #drawEdges(edges, grown) {
    const names = new Set(edges.map(edgeName));
    for (const [name, path] of this.#edges) {
      if (names.has(name)) continue;
      path.remove();
      this.#edges.delete(name);
    }
    for (const edge of edges) {
      const name = edgeName(edge);
      const path = this.#edges.get(name) ?? s("path", { class: grown ? "appears" : "" });
      path.classList.add("edge");
      path.classList.toggle("leads", edge.leads);
      path.setAttribute("d", edge.path);
      this.#edges.set(name, path);
      this.lines.append(path); // those that lead come last
    }
  }

  /** @param {DrawnNode[]} nodes @param {State} state @param {boolean} grown */
  #drawNodes(nodes, state, grown) {
    const names = new Set(nodes.map((node) => node.id));
    for (const [name, { element }] of this.#nodes) {
      if (names.has(name)) continue;
      element.remove();
      this.#nodes.delete(name);
    }
    nodes.forEach((node) => {
      const known = this.#nodes.get(node.id);
      const element = known?.element ?? this.#newNode(node.id, grown);
      const mark = JSON.stringify([node, memoOf(state, node.id)]);
      if (known?.mark !== mark) this.#fill(element, node, state);
      element.style.transform = `translate(${node.x}px, ${node.y}px)`;
      this.#nodes.set(node.id, { element, mark });
      if (!known) this.cards.append(element);
    });
  }

  /** @param {string} id @param {boolean} grown */
  #newNode(id, grown) {
    const open = () => {
      this.screen.close(); // the panel of the node is in the page
      this.#reduce();
      this.#context.node(id);
    };
    const element = s("g", { role: "button", tabindex: "0", class: grown ? "appears" : "", dataset: { node: id }, "aria-pressed": id === this.#chosen });
    element.addEventListener("click", () => !this.canvas.dragged && open());
    element.addEventListener("keydown", (event) => {
      const { key } = /** @type {KeyboardEvent} */ (event);
      if (key !== "Enter" && key !== " ") return;
      event.preventDefault();
      open();
    });
    element.addEventListener("focus", () => {
      const node = this.#drawing?.nodes.find((one) => one.id === id);
      if (node && element.matches(":focus-visible")) this.canvas.reveal(node);
    });
    return element;
  }

  /** @param {SVGElement} element @param {DrawnNode} node @param {State} state */
  #fill(element, node, state) {
    const memos = memoOf(state, node.id);
    const state_ = node.pending ? ", not summarised yet" : "";
    const whole = state.graph?.nodes.find((/** @type {any} */ one) => one.id === node.id);
    const text = whole ? `${whole.query}${whole.summary ? `. ${whole.summary}` : ""}` : node.query.join(" ");
    element.setAttribute("aria-label", `${node.title}: ${text}${state_}${memos.length ? `. ${count(memos.length, "picture")} remembered` : ""}`);
    element.setAttribute("class", `node ${node.kind}${node.pending ? " pending" : ""}${node.leads ? " leads" : ""}${element.classList.contains("appears") ? " appears" : ""}`);
    replace(
      element,
      s("rect", { class: "node-ring", x: -4, y: -4, width: node.width + 8, height: node.height + 8, rx: 13 }),
      s("rect", { class: "node-card", width: node.width, height: node.height, rx: 10 }),
      s("path", { class: "node-kind", d: `M5 12V${node.height - 12}` }),
      lines(node),
      this.#thumbs(node, memos, state),
    );
  }

  /** @param {DrawnNode} node @param {any[]} memos @param {State} state */
  #thumbs(node, memos, state) {
    if (!node.thumbs) return [];
    const y = node.height - PADDING - THUMB;
    const pictures = memos.slice(0, THUMBS).map((memo, index) => {
      const shown = seenAt(state, node.id, memo.label, memo.item);
      const href = shown ? fileUrl(this.#context.run, shown.sha256) : itemUrl(memo.item);
      const frame = { x: PADDING + index * (THUMB + 6), y, width: THUMB, height: THUMB };
      return [
        s("svg", { ...frame, viewBox: "0 0 1 1", preserveAspectRatio: "none" }, s("image", { href, width: 1, height: 1, preserveAspectRatio: "xMidYMin slice" })),
        s("rect", { class: "node-thumb", ...frame, rx: 3 }),
      ];
    });
    const rest = memos.length - THUMBS;
    return [pictures, rest > 0 && s("text", { class: "node-summary", x: PADDING + THUMBS * (THUMB + 6), y: y + THUMB / 2 + 4, text: `+${rest}` })];
  }

  /** Arrows go to parents and children. @param {KeyboardEvent} event */
  #key(event) {
    const id = /** @type {Element} */ (event.target).closest("[data-node]")?.getAttribute("data-node");
    const edges = this.#drawing?.edges ?? [];
    const nodes = this.#drawing?.nodes ?? [];
    const index = nodes.findIndex((node) => node.id === id);
    /** @type {Record<string, string | undefined>} */
    const next = {
      ArrowUp: nodes.findLast((node) => edges.some((edge) => edge.child === id && edge.parent === node.id))?.id,
      ArrowDown: nodes.find((node) => edges.some((edge) => edge.parent === id && edge.child === node.id))?.id,
      ArrowLeft: nodes[index - 1]?.id,
      ArrowRight: nodes[index + 1]?.id,
    };
    if (index < 0 || event.shiftKey || !(event.key in next)) return;
    event.preventDefault();
    event.stopPropagation();
    this.focus(next[event.key] ?? "");
  }
}

/** @param {State} state @param {string} id The pictures that a node remembers. */
function memoOf(state, id) {
  const node = state.graph?.nodes.find((/** @type {any} */ one) => one.id === id);
  return (node?.memory ?? []).filter((/** @type {any} */ memo) => memo.useful && !memo.label.startsWith("Text"));
}

/** @param {DrawnNode} node */
function lines(node) {
  let y = PADDING - 3 + HEAD;
  const drawn = [s("text", { class: "node-head", x: PADDING, y: y - 4, text: node.title })];
  for (const line of node.query) drawn.push(s("text", { class: "node-query", x: PADDING, y: (y += QUERY) - 3, text: line }));
  y += 8;
  for (const line of node.summary) drawn.push(s("text", { class: "node-summary", x: PADDING, y: (y += SUMMARY) - 4, text: line }));
  return drawn;
}

/** Escape leaves the full screen and does nothing else. @param {KeyboardEvent} event */
function keepEscape(event) {
  if (event.key === "Escape") event.stopPropagation();
}

/** @param {{parent: string, child: string}} edge */
const edgeName = (edge) => `${edge.parent} ${edge.child}`;
