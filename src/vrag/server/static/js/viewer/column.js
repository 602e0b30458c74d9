/** A column of many elements, of which only those near what is seen exist: pages, and their thumbnails. */

/** Most pixels that a column may be high: browsers give up not far above. */
export const MOST_HIGH = 16_000_000;

/**
 * Where the elements of a column begin, one below the other: `tops[count]` is where another one would.
 * @param {readonly number[]} heights
 * @param {number} gap Between two of them, and above the first and below the last one.
 * @returns {Float64Array}
 */
export function topsOf(heights, gap) {
  const tops = new Float64Array(heights.length + 1);
  tops[0] = gap;
  heights.forEach((height, index) => (tops[index + 1] = tops[index] + height + gap));
  return tops;
}

/**
 * The last element that begins at or above a place; the first one where none does.
 * @param {Float64Array} tops
 * @param {number} place
 */
export function indexAt(tops, place) {
  let [low, high] = [0, Math.max(0, tops.length - 2)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= place) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Builds the elements of a column as they come near, and drops them when they are far. */
export class Column {
  /** @type {Map<number, HTMLElement>} */
  #built = new Map();
  /** @type {Float64Array} */
  #tops = new Float64Array(1);
  /** @type {readonly number[]} */
  #heights = [];

  /**
   * @param {HTMLElement} window_ What scrolls.
   * @param {HTMLElement} content What is in it, as high as all elements.
   * @param {{build: (index: number) => HTMLElement, drop: (index: number, element: HTMLElement) => void,
   *   place?: (index: number, element: HTMLElement, top: number, height: number) => void}} calls `place` comes when
   *   an element was built, and whenever the heights change.
   */
  constructor(window_, content, { build, drop, place = () => {} }) {
    this.window = window_;
    this.content = content;
    this.build = build;
    this.drop = drop;
    this.place = place;
  }

  /**
   * Sets how high the elements are; those that exist stay.
   * @param {readonly number[]} heights
   * @param {number} gap
   */
  set(heights, gap) {
    this.#heights = heights;
    this.#tops = topsOf(heights, gap);
    this.content.style.height = `${this.#tops[heights.length]}px`;
    for (const [index, element] of [...this.#built]) {
      if (index < heights.length) this.#put(index, element);
      else this.#remove(index, element);
    }
  }

  /** Drops all elements: what follows is of another document. */
  clear() {
    for (const [index, element] of [...this.#built]) this.#remove(index, element);
  }

  /** Where an element begins in the content, in pixels. @param {number} index */
  top(index) {
    return this.#tops[index] ?? 0;
  }

  /** The element at a place of the content. @param {number} place */
  at(place) {
    return indexAt(this.#tops, place);
  }

  /** The elements that exist, by their number. @returns {ReadonlyMap<number, HTMLElement>} */
  get built() {
    return this.#built;
  }

  /** Builds what is within the height of a window of it, and drops what is twice as far. */
  update() {
    const { scrollTop, clientHeight } = this.window;
    const near = Math.max(clientHeight, 400);
    if (clientHeight === 0 || this.#heights.length === 0) return;
    const [first, last] = [this.at(scrollTop - near), this.at(scrollTop + clientHeight + near)];
    const [above, below] = [this.at(scrollTop - 2 * near), this.at(scrollTop + clientHeight + 2 * near)];
    for (const [index, element] of [...this.#built]) if (index < above || index > below) this.#remove(index, element);
    for (let index = first; index <= last; index++) if (!this.#built.has(index)) this.#add(index);
  }

  /** In the order of their numbers, which is the one that a screen reader goes through. @param {number} index */
  #add(index) {
    const element = this.build(index);
    const after = [...this.#built].filter(([other]) => other > index).sort(([a], [b]) => a - b)[0];
    this.content.insertBefore(element, after?.[1] ?? null);
    this.#built.set(index, element);
    this.#put(index, element);
  }

  /** @param {number} index @param {HTMLElement} element */
  #put(index, element) {
    element.style.top = `${this.#tops[index]}px`;
    this.place(index, element, this.#tops[index], this.#heights[index]);
  }

  /** @param {number} index @param {HTMLElement} element */
  #remove(index, element) {
    this.#built.delete(index);
    element.remove();
    this.drop(index, element);
  }
}
