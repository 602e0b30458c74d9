// The list of cases of a report. Whatever a document, a model or a data set says goes into the page as text only.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const two = data.names.length > 1;
  const PAGE = 100;
  const SVG = "http://www.w3.org/2000/svg";
  const OUTCOMES = ["right", "wrong", "abstained", "unjudged", "failed"];
  const MOODS = { right: "good", wrong: "bad", abstained: "calm", unjudged: "fair", failed: "lost" };
  const CELLS = { both: "Both right", a: "Only A", b: "Only B", neither: "Neither right" };
  const CELL_MOODS = { both: "good", a: "side-a", b: "side-b", neither: "bad" };
  const KINDS = { search: "Search", crop: "Closer look", tool: "Action", fault: "Not carried out", answer: "Answer" };

  const make = (tag, given = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(given)) {
      if (name === "class") node.className = value;
      else if (name === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
    return node;
  };
  const shape = (tag, given) => {
    const node = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(given)) node.setAttribute(name, value);
    return node;
  };
  const said = (tag, text, kind = "") => make(tag, { class: kind || null, dir: "auto" }, text);
  const name = (outcome) => outcome.charAt(0).toUpperCase() + outcome.slice(1);
  const amount = (value) =>
    Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Math.round(value * 1000) / 1000);

  // What each filter looks at: all values of a case.
  const NONE = "–"; // an empty value would be taken for no filter
  const FACETS = {
    cell: (entry) => [entry.cell || "open", ...(["a", "b"].includes(entry.cell) ? ["differ"] : [])],
    outcome: (entry) => [entry.sides[0].outcome],
    a: (entry) => [entry.sides[0].outcome],
    b: (entry) => [entry.sides[entry.sides.length - 1].outcome],
    benchmark: (entry) => [entry.benchmark],
    source_type: (entry) => entry.source_type,
    query_type: (entry) => [entry.query_type || NONE],
    document_type: (entry) => [entry.document_type || NONE],
  };
  const main = two ? "cell" : "outcome";
  const TITLES = {
    a: "A", b: "B", benchmark: "Benchmark", source_type: "Source type", query_type: "Query type",
    document_type: "Document type",
  };
  const texts = data.entries.map((entry) => [
    entry.id, entry.question, entry.document, ...entry.gold,
    ...entry.sides.flatMap((side) => [
      side.answer || "", side.why, ...side.steps.flatMap((step) => [step.thought, ...step.acts.map((act) => act[1])]),
    ]),
  ].join("\n").toLocaleLowerCase());

  // ---- state, which stands in the address -------------------------------------------------------------
  let state = {};
  let shown = [];
  let drawn = 0;
  let open = null;

  const read = () => {
    const hash = location.hash;
    const numbered = /^#show-(\d+)$/.exec(hash);
    if (numbered) return { ...(data.links[Number(numbered[1])] || {}) };
    if (!hash.startsWith("#/")) return null;
    const known = [...Object.keys(FACETS), "q", "sort", "case"];
    return Object.fromEntries([...new URLSearchParams(hash.slice(2))].filter(([key]) => known.includes(key)));
  };
  const address = (wanted) => {
    const kept = Object.entries(wanted).filter(([, value]) => value !== "" && value !== undefined && value !== null);
    return `#/${new URLSearchParams(kept)}`;
  };
  const change = (changes) => {
    state = { ...state, ...changes };
    history.replaceState(null, "", address(state));
    draw();
  };

  const fits = (entry, index, without = "") => {
    for (const [facet, values] of Object.entries(FACETS)) {
      const wanted = state[facet];
      if (wanted && facet !== without && !values(entry).includes(wanted)) return false;
    }
    return words.every((word) => texts[index].includes(word));
  };
  let words = [];
  const value = (entry, measure) => {
    const found = entry.sides.map((side) => side.measures[measure]).filter((one) => one !== undefined);
    if (!found.length) return null;
    return two && found.length > 1 ? found[1] - found[0] : found[0];
  };
  const sorted = (indices) => {
    const wanted = state.sort || "";
    if (!wanted) return indices;
    const sign = wanted.startsWith("-") ? -1 : 1;
    const measure = wanted.replace(/^-/, "");
    const keyed = indices.map((index) => [value(data.entries[index], measure), index]);
    keyed.sort((x, y) => (x[0] === null) - (y[0] === null) || sign * ((x[0] || 0) - (y[0] || 0)) || x[1] - y[1]);
    return keyed.map((pair) => pair[1]);
  };

  // ---- controls ---------------------------------------------------------------------------------------
  const root = document.getElementById("list");
  const search = make("input", {
    type: "search", id: "search", placeholder: "Search questions, answers, steps", "aria-label": "Search the cases",
    autocomplete: "off", spellcheck: "false", on: { input: () => later(() => change({ q: search.value, case: "" })) },
  });
  let waiting = 0;
  const later = (act) => { clearTimeout(waiting); waiting = setTimeout(act, 120); };
  const chips = make("div", { class: "chips", role: "group", "aria-label": two ? "What both made of it" : "Outcome" });
  const selects = make("div", { class: "selects" });
  const count = make("p", { class: "aside tally", role: "status" });
  const list = make("ol", { class: "cases" });
  const more = make("button", { type: "button", class: "further", on: { click: () => further() } });

  const counted = (facet) => {
    const found = new Map();
    data.entries.forEach((entry, index) => {
      if (fits(entry, index, facet)) for (const one of new Set(FACETS[facet](entry))) found.set(one, (found.get(one) || 0) + 1);
    });
    return found;
  };
  const every = (facet) => [...new Set(data.entries.flatMap((entry) => FACETS[facet](entry)))];

  const chip = (text, wanted, number, mood) => make("button", {
    type: "button", class: `filter ${mood}`, "aria-pressed": String((state[main] || "") === wanted),
    disabled: number === 0 && (state[main] || "") !== wanted,
    on: { click: () => change({ [main]: (state[main] || "") === wanted ? "" : wanted, case: "" }) },
  }, mood ? make("span", { class: `dot ${mood}` }) : null, `${text} `, make("span", { class: "tally" }, number.toLocaleString("en")));

  const drawChips = () => {
    const found = counted(main);
    const all = data.entries.filter((entry, index) => fits(entry, index, main)).length;
    const options = two
      ? [...Object.keys(CELLS).map((key) => [CELLS[key], key, CELL_MOODS[key]]), ["They differ", "differ", ""], ["No two verdicts", "open", "fair"]]
      : OUTCOMES.map((key) => [name(key), key, MOODS[key]]);
    const focused = [...chips.children].indexOf(document.activeElement);
    chips.replaceChildren(
      chip("All", "", all, ""),
      ...options.filter(([, key]) => found.get(key) || state[main] === key || key !== "open")
        .map(([text, key, mood]) => chip(text, key, found.get(key) || 0, mood)),
    );
    if (focused >= 0 && chips.children[focused]) chips.children[focused].focus();
  };
  const picks = {};
  const offered = Object.keys(TITLES).filter((facet) => (two || !(facet in { a: 1, b: 1 })) && every(facet).length > 1);
  for (const facet of offered) {
    picks[facet] = make("select", { on: { change: () => change({ [facet]: picks[facet].value, case: "" }) } });
    selects.append(make("label", {}, make("span", {}, TITLES[facet]), picks[facet]));
  }
  const order = make("select", { on: { change: () => change({ sort: order.value }) } });
  const less = two ? ["most gained by B", "most lost by B"] : ["most first", "least first"];
  order.append(make("option", { value: "" }, "As they came"), ...Object.entries(data.labels).flatMap(([key, label]) => [
    make("option", { value: `-${key}` }, `${label}, ${less[0]}`), make("option", { value: key }, `${label}, ${less[1]}`),
  ]));
  selects.append(make("label", {}, make("span", {}, "Order"), order));

  const drawSelects = () => {
    for (const [facet, pick] of Object.entries(picks)) {
      const found = counted(facet);
      const options = every(facet).sort().map((one) =>
        make("option", { value: one }, `${one} (${found.get(one) || 0})`));
      pick.replaceChildren(make("option", { value: "" }, "All"), ...options);
      pick.value = state[facet] || "";
      pick.classList.toggle("set", Boolean(state[facet]));
    }
    order.value = state.sort || "";
    if (document.activeElement !== search) search.value = state.q || "";
  };

  // ---- a case ------------------------------------------------------------------------------------------
  const badge = (side, label = "") => make("span", { class: `badge ${MOODS[side.outcome] || ""}` },
    label ? `${label} ` : "", name(side.outcome));
  const answer = (side) => side.answer === null ? side.stop.toLowerCase() || "no answer" : side.answer;

  const row = (index) => {
    const entry = data.entries[index];
    const button = make("button", { type: "button", class: "row-button", "aria-expanded": "false", on: { click: () => toggle(index) } },
      make("span", { class: "badges" }, entry.sides.map((side, at) => badge(side, two ? "AB"[at] : ""))),
      make("span", { class: "asked" }, said("bdi", entry.question),
        make("span", { class: "aside" }, entry.sides.map((side, at) => [
          at ? " · " : "", two ? `${"AB"[at]}: ` : "", said("bdi", answer(side)),
        ]), " · gold: ", said("bdi", entry.answerable ? entry.gold[0] || "–" : "cannot be answered"))),
      make("span", { class: "aside of" }, said("bdi", entry.document)),
    );
    return make("li", { class: "case", "data-case": entry.id }, button);
  };

  // An answer as paragraphs, lists and tables: [tag, attributes, content], of a few tags without addresses.
  const built = (part) => typeof part === "string" ? part : make(part[0], part[1], part[2].map(built));
  const told = (side) => side.elements.length ? make("div", { class: "prose" }, side.elements.map(built)) : said("span", side.answer, "text");

  const pair = (term, ...told) => make("div", {}, make("dt", {}, term), make("dd", {}, ...told));
  const verdict = (side, at, entry) => make("div", { class: "verdict-of" },
    two ? make("h3", { class: `side-${"ab"[at]}` }, `${"AB"[at]} `, said("small", data.names[at])) : null,
    make("dl", { class: "told" },
      pair("Answer", side.answer === null ? make("span", { class: "aside" }, side.stop || "none") : told(side)),
      side.extracted === null || side.extracted === undefined ? null : pair("Compared by rules", said("span", side.extracted, "text")),
      pair("Outcome", badge(side), side.judge ? make("small", {}, " by ", said("bdi", side.judge)) : null,
        side.why ? said("p", side.why, "why") : null),
      side.stop && side.answer !== null ? pair("Ended", said("span", side.stop)) : null,
      side.run ? pair("Run", run(side, at)) : null,
    ));
  const run = (side, at) => {
    const folder = data.runs[at];
    const command = folder ? { title: `VRAG_RUNS_DIR=${folder} vrag runs show ${side.run}` } : {};
    return make("code", command, side.run);
  };

  const where = (sight) => `${sight.document}, ${sight.when || `page ${sight.page}`}`;
  const WORDS = { a: two ? "A" : "Predicted", b: "B", gold: "Gold" };
  const overlay = (sight) => {
    const svg = shape("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", class: "overlay", "aria-hidden": "true" });
    for (const [kind, x1, y1, x2, y2] of sight.boxes) {
      const sides = { x: x1, y: y1, width: Math.max(x2 - x1, 0.002), height: Math.max(y2 - y1, 0.002), "vector-effect": "non-scaling-stroke" };
      svg.append(shape("rect", { ...sides, class: "under" }), shape("rect", { ...sides, class: `over ${kind}` }));
    }
    return svg;
  };
  const picture = (sight) => {
    const kinds = [...new Set(sight.boxes.map((box) => WORDS[box[0]].toLowerCase()))];
    const alt = `${where(sight)}${kinds.length ? `, with rectangles: ${kinds.join(", ")}` : ""}`;
    return make("span", { class: "leaf" }, make("img", { src: data.pictures[sight.picture], alt, decoding: "async" }), overlay(sight));
  };
  const seen = (sight) => {
    const kinds = new Set([...sight.boxes.map((box) => box[0]), ...sight.whole]);
    const marks = ["a", "b", "gold"].filter((kind) => kinds.has(kind)).map((kind) => make("span", { class: `mark ${kind}` },
      sight.boxes.some((box) => box[0] === kind) || sight.when ? WORDS[kind] : `${WORDS[kind]}: the page`));
    const caption = make("figcaption", {}, said("span", where(sight)), make("span", { class: "marks" }, marks));
    if (sight.picture === null) {
      return make("figure", {}, make("div", { class: "absent" }, make("span", {}, sight.when || `Page ${sight.page}`), "Its picture is not in this report."), caption);
    }
    return make("figure", {}, make("button", { type: "button", "aria-label": `Enlarge ${where(sight)}`, on: { click: () => enlarge(sight) } }, picture(sight)), caption);
  };
  const large = make("dialog", { class: "large", "aria-label": "A page", on: { click: () => large.close() } });
  const enlarge = (sight) => {
    large.replaceChildren(picture(sight), make("p", {}, said("bdi", where(sight)), " ", make("button", { type: "button" }, "Close")));
    large.showModal();
  };

  const step = (one) => make("li", {},
    make("span", { class: "number" }, String(one.n)),
    make("div", {},
      one.acts.map(([kind, text]) => make("p", { class: `act ${kind}` }, make("span", { class: "chip" }, KINDS[kind] || kind), " ", said("span", text, "text"))),
      one.acts.length ? null : make("p", { class: "aside" }, "No action"),
      one.thought ? thought(one.thought) : null,
      one.seen.length ? make("p", { class: "aside" }, "Shown: ", one.seen.map((told, at) => [at ? " · " : "", said("bdi", told)])) : null,
    ));
  const thought = (text) => text.length < 420 ? said("p", text, "thinking")
    : make("details", { class: "thinking" }, make("summary", {}, said("span", `${text.slice(0, 240).trimEnd()}…`)), said("p", text));
  const steps = (side, at) => make("div", {},
    make("h3", {}, two ? `Steps of ${"AB"[at]}` : "Steps"),
    side.steps.length ? make("ol", { class: "strides" }, side.steps.map(step))
      : make("p", { class: "plain" }, side.run ? "The run was not there to be read." : "It failed before its first step."));

  const measures = (entry) => {
    const names = Object.keys(data.labels).filter((key) => entry.sides.some((side) => key in side.measures));
    if (!names.length) return null;
    return make("details", { class: "more" }, make("summary", {}, "Measures"), make("dl", { class: "values" },
      names.map((key) => pair(data.labels[key], entry.sides.map((side) => key in side.measures ? amount(side.measures[key]) : "–").join(" / ")))));
  };
  const detail = (entry) => make("div", { class: "detail" },
    make("p", { class: "question-whole", dir: "auto" }, entry.question),
    make("div", { class: "columns" },
      make("div", { class: "words" },
        make("dl", { class: "told" },
          pair("Gold", entry.answerable ? entry.gold.map((one, at) => [at ? " · " : "", said("bdi", one)]) : "It cannot be answered."),
          entry.moments.length ? pair("In the video", said("span", entry.moments.join(", "))) : null,
        ),
        entry.sides.map((side, at) => verdict(side, at, entry)),
      ),
      make("div", { class: "sights" }, entry.sights.length ? entry.sights.map(seen)
        : make("p", { class: "plain" }, "There is neither evidence nor a gold page.")),
    ),
    make("div", { class: two ? "columns" : "" }, entry.sides.map(steps)),
    make("dl", { class: "facts" },
      pair("Document", said("span", entry.document || "–")),
      pair("Case", said("code", entry.id)),
      ["source_type", "query_type", "document_type"].filter((facet) => FACETS[facet](entry).some((one) => one !== NONE))
        .map((facet) => pair(TITLES[facet], said("span", FACETS[facet](entry).join(", ")))),
    ),
    measures(entry),
    make("p", { class: "turn" },
      make("button", { type: "button", on: { click: () => turn(-1) } }, "← Previous"),
      make("button", { type: "button", on: { click: () => turn(1) } }, "Next →"),
      make("button", { type: "button", on: { click: () => close() } }, "Close")),
  );

  // ---- the list ----------------------------------------------------------------------------------------
  const further = () => {
    const next = shown.slice(drawn, drawn + PAGE);
    list.append(...next.map(row));
    drawn += next.length;
    more.hidden = drawn >= shown.length;
    more.textContent = `Show ${Math.min(PAGE, shown.length - drawn)} more of ${(shown.length - drawn).toLocaleString("en")}`;
  };
  const draw = () => {
    words = (state.q || "").toLocaleLowerCase().split(/\s+/).filter(Boolean);
    shown = sorted(data.entries.map((entry, index) => index).filter((index) => fits(data.entries[index], index)));
    list.replaceChildren();
    drawn = 0;
    open = null;
    further();
    drawChips();
    drawSelects();
    count.textContent = shown.length === data.entries.length
      ? `${shown.length.toLocaleString("en")} cases`
      : `${shown.length.toLocaleString("en")} of ${data.entries.length.toLocaleString("en")} cases`;
    if (state.case) show(state.case);
  };
  const place = (id) => shown.findIndex((index) => data.entries[index].id === id);
  const show = (id) => {
    const at = place(id);
    if (open) shut();
    if (at < 0) return;
    while (drawn <= at) further();
    const item = list.children[at];
    item.append(detail(data.entries[shown[at]]));
    item.classList.add("open");
    item.firstChild.setAttribute("aria-expanded", "true");
    open = item;
  };
  const shut = () => {
    open.lastChild.remove();
    open.classList.remove("open");
    open.firstChild.setAttribute("aria-expanded", "false");
    open = null;
  };
  const go = (id) => {
    state.case = id;
    history.pushState(null, "", address(state));
    show(id);
    if (open) {
      open.firstChild.focus({ preventScroll: true });
      open.scrollIntoView({ block: "start" });
    }
  };
  const toggle = (index) => {
    const id = data.entries[index].id;
    if (state.case === id) close();
    else go(id);
  };
  const close = () => {
    const button = open && open.firstChild;
    state.case = "";
    history.replaceState(null, "", address(state));
    if (open) shut();
    if (button) button.focus();
  };
  const turn = (by) => {
    const at = state.case ? place(state.case) + by : 0;
    if (at >= 0 && at < shown.length) go(data.entries[shown[at]].id);
  };

  const follow = () => {
    const found = read();
    if (found === null) return;
    const linked = location.hash.startsWith("#show-");
    state = found;
    if (linked) history.replaceState(null, "", address(state));
    draw();
    (state.case && open ? open : document.getElementById("cases")).scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", follow);
  addEventListener("popstate", () => {
    if (location.hash.startsWith("#/")) follow();
    else if (!location.hash) { state = {}; draw(); }
  });
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || large.open) return;
    if (event.target.closest("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "j") turn(1);
    else if (event.key === "k") turn(-1);
    else if (event.key === "Escape" && open) close();
  });

  document.getElementById("without-script").remove();
  root.append(
    make("div", { class: "controls" }, chips, make("div", { class: "line" }, search, selects),
      make("p", { class: "line aside" }, count, make("span", { class: "keys" }, "Keys: / search, j and k next and previous, Esc close"))),
    list, more, large,
  );
  state = read() || {};
  if (location.hash.startsWith("#/") || location.hash.startsWith("#show-")) follow();
  else draw();
})();
