/** Keeps the end of a run in sight while it grows, as long as the reader is there and nowhere else. */

const NEAR = 90;

/** Follows the end of a run. */
export class Follower {
  #following = true;
  #running = false;
  #watch;

  /**
   * @param {HTMLElement} root
   * @param {{main: HTMLElement, body: HTMLElement, latest: HTMLElement}} layout
   */
  constructor(root, layout) {
    this.root = root;
    this.layout = layout;
    this.scrolled = () => this.#look();
    root.addEventListener("scroll", this.scrolled, { passive: true });
    layout.main.addEventListener("scroll", this.scrolled, { passive: true });
    layout.latest.addEventListener("click", () => this.#toEnd(true));
    this.#watch = new ResizeObserver(() => this.#keep());
    this.#watch.observe(layout.body);
  }

  destroy() {
    this.#watch.disconnect();
    this.root.removeEventListener("scroll", this.scrolled);
  }

  /**
   * Changes the run, and stays at its end when the reader was there.
   * @param {boolean} running
   * @param {() => void} change
   */
  around(running, change) {
    const follow = this.#following && (running || this.#running);
    this.#running = running;
    change();
    if (follow) this.#toEnd(false);
    this.#offer();
  }

  /** True if the reader is at the end of the run. */
  get following() {
    return this.#following;
  }

  /** The element that scrolls: the column on a wide screen, the whole view on a narrow one. */
  get #scroller() {
    return getComputedStyle(this.layout.main).overflowY === "auto" ? this.layout.main : this.root;
  }

  #look() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#following = scrollHeight - scrollTop - clientHeight < NEAR;
    this.#offer();
  }

  #keep() {
    if (this.#running && this.#following) this.#toEnd(false);
  }

  /** @param {boolean} smooth */
  #toEnd(smooth) {
    const scroller = this.#scroller;
    this.#following = true;
    scroller.scrollTo({ top: scroller.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  }

  #offer() {
    this.layout.latest.hidden = this.#following || !this.#running;
  }
}
