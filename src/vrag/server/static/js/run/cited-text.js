/** The text of an answer with the markers of its citations, such as `[2]`, and with its claims. Pure; as in vrag.agent.answers.citation. */

/** @typedef {{start: number, end: number, numbers: number[], source: string}} Citation Places count characters, not UTF-16 units. */
/** @typedef {{kind: string, start: number, end: number, verdict: string, numbers: number[], found: string, doubt: string | null, needs_picture: boolean, judge: string}} Claim */

/** White space at the end of a part, as Python strips it. */
const BLANKS = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/;
const FULL_STOPS = /[.!?。！？;；]+$/;
/** Ends of Markdown blocks; a marker behind one belongs into a paragraph of its own. */
const BLOCK_ENDS = ["```", "$$"];

/**
 * The places of the markers in a text, in order.
 * @param {string} text
 * @param {readonly Citation[]} citations
 * @returns {{at: number, gap: string, numbers: number[]}[]} `at` counts UTF-16 units; `gap` separates words and markers.
 */
function markersOf(text, citations) {
  const unit = unitsOf(text);
  const markers = [];
  let at = 0;
  for (const { start, end, numbers } of [...citations].sort((a, b) => a.end - b.end)) {
    const part = text.slice(0, unit(end)).replace(BLANKS, "");
    const before = part.replace(FULL_STOPS, "").length;
    const own = insideRow(text, before > unit(start) ? before : part.length);
    const place = Math.max(own, at);
    const endsBlock = text.slice(place).replace(BLANKS, "") === "" && BLOCK_ENDS.some((one) => text.slice(at, place).replace(BLANKS, "").endsWith(one));
    markers.push({ at: place, gap: endsBlock ? "\n\n" : " ", numbers });
    at = place;
  }
  return markers;
}

/** The text with its markers, to be read and copied. @param {string} text @param {readonly Citation[]} citations */
export function markedText(text, citations) {
  return filled(text, markersOf(text, citations).map(({ at, gap, numbers }) => ({ at, text: gap + numbers.map((number) => `[${number}]`).join("") })));
}

/**
 * The places of citations and claims as the page sets them into the text.
 * @param {string} text
 * @param {readonly Citation[]} citations
 * @param {readonly Claim[]} claims In order, none over another.
 * @returns {{chips: {at: number, numbers: number[]}[], claims: {start: number, end: number}[]}} In UTF-16 units.
 */
export function marksIn(text, citations, claims) {
  const unit = unitsOf(text);
  return { chips: markersOf(text, citations), claims: claims.map(({ start, end }) => ({ start: unit(start), end: unit(end) })) };
}

/** In a row of a table a marker stands in its last cell. @param {string} text @param {number} at */
function insideRow(text, at) {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  const rest = text.slice(at).split("\n", 1)[0];
  if (!/^\s*\|.*\|\s*$/.test(line) || rest.replace(BLANKS, "") !== "") return at;
  return text.slice(0, at - (line.length - line.lastIndexOf("|"))).replace(BLANKS, "").length;
}

/** The words of a claim. @param {string} text @param {Claim} claim */
export function wordsOf(text, { start, end }) {
  const unit = unitsOf(text);
  return text.slice(unit(start), unit(end));
}

/** @param {string} text @param {{at: number, text: string}[]} added */
function filled(text, added) {
  let [made, done] = ["", 0];
  for (const one of added.toSorted((a, b) => a.at - b.at)) {
    made += text.slice(done, one.at) + one.text;
    done = Math.max(done, one.at);
  }
  return made + text.slice(done);
}

/** UTF-16 units before so many characters of a text. @param {string} text @returns {(characters: number) => number} */
function unitsOf(text) {
  if (!/[\ud800-\udbff]/.test(text)) return (characters) => Math.min(characters, text.length);
  const starts = [0];
  for (const character of text) starts.push(starts[starts.length - 1] + character.length);
  return (characters) => starts[Math.min(characters, starts.length - 1)];
}
