/**
 * Keeps what comes in sight while a run goes on, as long as the reader is there and nowhere else. The beginning of an answer
 * is never scrolled away while it is written: whoever reads it there goes on when they want to.
 */

/** @typedef {{edge: HTMLElement, answering: boolean, running: boolean, answer: {element: HTMLElement}, element: HTMLElement}} Growing A turn. */

/** Pixels from the end at which a reader is taken to be there, and those that are left below it, for the buttons. */
const [NEAR, MARGIN] = [110, 56];
/** Pixels above the beginning of an answer. */
const ABOVE = 24;

export class Follower {
  #following = true;
  /** True if the reader wants to see the end even of a long answer. */
  #toEnd = false;
  /** True once the answer of the turn is there. */
  #answering = false;
  /** @type {Growing | null} */
  #turn = null;
  #watch;

  /**
   * @param {HTMLElement} scroller
   * @param {HTMLElement} latest Goes to the end, where the reader is elsewhere.
   */
  constructor(scroller, latest) {
    this.scroller = scroller;
    this.latest = latest;
    this.scrolled = () => this.#look();
    scroller.addEventListener("scroll", this.scrolled, { passive: true });
    latest.addEventListener("click", () => this.#go());
    this.#watch = new ResizeObserver(() => this.#keep());
  }

  destroy() {
    this.#watch.disconnect();
    this.scroller.removeEventListener("scroll", this.scrolled);
  }

  /** True if the reader is at the end of what comes. */
  get following() {
    return this.#following;
  }

  /** Follows a turn that begins. @param {Growing} turn */
  follow(turn) {
    this.#watch.disconnect();
    this.#turn = turn;
    this.#following = true;
    this.#toEnd = this.#answering = false;
    this.#watch.observe(turn.element);
  }

  /**
   * Changes a turn, and stays at the end of it when the reader was there.
   * @param {Growing} turn
   * @param {() => void} change
   */
  around(turn, change) {
    change();
    if (turn !== this.#turn) return;
    if (turn.answering && !this.#answering && this.#following) this.#begin(turn);
    this.#answering = turn.answering;
    this.#keep();
    this.#offer();
  }

  /** Pixels of what comes that are below the window. */
  get #below() {
    if (!this.#turn?.element.isConnected) return 0;
    return this.#turn.edge.getBoundingClientRect().bottom - this.scroller.getBoundingClientRect().bottom + MARGIN;
  }

  #look() {
    if (!this.#turn?.running) return;
    this.#following = this.#below < NEAR;
    if (!this.#following) this.#toEnd = false;
    this.#offer();
  }

  /** The steps have folded: what is read now is the question with its answer. @param {Growing} turn */
  #begin(turn) {
    const above = turn.element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top;
    if (above < 0) this.scroller.scrollBy({ top: above, behavior: "instant" });
  }

  #keep() {
    if (!this.#turn?.running || !this.#following) return;
    const { scroller } = this;
    const most = this.#turn.answering && !this.#toEnd ? this.#turn.answer.element.getBoundingClientRect().top - scroller.getBoundingClientRect().top - ABOVE : Infinity;
    const by = Math.min(this.#below, Math.max(0, most));
    if (by > 0) scroller.scrollBy({ top: by, behavior: "instant" });
  }

  #go() {
    this.#following = this.#toEnd = true;
    this.scroller.scrollBy({ top: Math.max(0, this.#below), behavior: "instant" });
    this.#offer();
  }

  #offer() {
    this.latest.hidden = !this.#turn?.running || this.#below < NEAR;
  }
}
