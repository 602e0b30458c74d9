/** Goes through a run step by step: buttons, a slider with a mark for every step, the arrow keys. */

import { h, icon, iconButton, replace } from "../dom.js";
import { copy } from "./answer.js";
import { runHash } from "../router.js";

/** @typedef {{number: number, seq: number, kind: string, title: string}} Moment */

/** Milliseconds that a step is shown at the usual speed. */
const PAUSE = 1800;
const SPEEDS = [0.5, 1, 2, 4];

/** The controls of a replay. Position 0 is the question alone, position n the end of step n. */
export class Player {
  /** @type {readonly Moment[]} */
  #moments = [];
  #at = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #speed = 1;

  /**
   * @param {string} run
   * @param {(position: number) => void} show
   * @param {() => void} close
   */
  constructor(run, show, close) {
    this.show = show;
    this.slider = /** @type {HTMLInputElement} */ (h("input", { type: "range", min: "0", max: "0", step: "1", "aria-label": "Step of the replay", on: { input: () => this.#seek(this.slider.valueAsNumber) } }));
    this.marks = h("span", { class: "player-marks", "aria-hidden": true });
    this.status = h("output", { class: "player-status", dir: "auto" });
    this.playButton = iconButton("play", "Play", { on: { click: () => this.toggle() } });
    const link = () => copy(`${location.origin}${location.pathname}${runHash(run)}?step=${this.#at}`, "The link to this step was copied.");
    const speeds = SPEEDS.map((speed) => h("option", { value: speed, selected: speed === 1, text: `${speed}×` }));
    this.element = h(
      "div",
      { class: "player", role: "group", "aria-label": "Replay", hidden: true },
      h(
        "div",
        { class: "player-buttons" },
        iconButton("back", "To the question", { class: "player-first", on: { click: () => this.#seek(0) } }),
        iconButton("back", "Step back", { on: { click: () => this.#seek(this.#at - 1) } }),
        this.playButton,
        iconButton("forward", "Step forward", { on: { click: () => this.#seek(this.#at + 1) } }),
        iconButton("forward", "To the end", { class: "player-last", on: { click: () => this.#seek(this.#moments.length) } }),
      ),
      h("span", { class: "player-track" }, this.marks, this.slider),
      this.status,
      h("div", { class: "player-tools" }, h("select", { "aria-label": "Speed", title: "Speed", on: { change: (/** @type {Event} */ event) => (this.#speed = Number(/** @type {HTMLSelectElement} */ (event.target).value)) } }, speeds),
      iconButton("link", "Copy the link to this step", { on: { click: link } }),
      iconButton("close", "End the replay", { on: { click: close } })),
    );
    this.keys = (/** @type {KeyboardEvent} */ event) => this.#key(event);
  }

  /** True if it is open. */
  get active() {
    return !this.element.hidden;
  }

  get position() {
    return this.#at;
  }

  /**
   * Opens it.
   * @param {readonly Moment[]} moments
   * @param {number} position
   */
  open(moments, position) {
    this.#moments = moments;
    this.slider.max = String(moments.length);
    const part = (/** @type {number} */ index) => `${((index + 1) / Math.max(1, moments.length)) * 100}%`;
    replace(this.marks, moments.map((one, index) => h("span", { class: "player-mark", dataset: { kind: one.kind }, style: { left: part(index) } })));
    if (!this.active) document.addEventListener("keydown", this.keys);
    this.element.hidden = false;
    this.#seek(position);
  }

  close() {
    this.pause();
    document.removeEventListener("keydown", this.keys);
    this.element.hidden = true;
  }

  toggle() {
    if (this.#timer !== undefined) return this.pause();
    if (this.#at >= this.#moments.length) this.#go(0);
    this.#plan();
    this.#playing(true);
  }

  pause() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#playing(false);
  }

  #plan() {
    this.#timer = setTimeout(() => {
      this.#go(this.#at + 1);
      if (this.#at < this.#moments.length) this.#plan();
      else this.pause();
    }, PAUSE / this.#speed);
  }

  /** @param {boolean} playing */
  #playing(playing) {
    replace(this.playButton, icon(playing ? "pause" : "play"));
    this.playButton.setAttribute("aria-label", playing ? "Pause" : "Play");
    this.playButton.title = playing ? "Pause" : "Play";
  }

  /** @param {number} position By hand: that ends the playing. */
  #seek(position) {
    this.pause();
    this.#go(position);
  }

  /** @param {number} position */
  #go(position) {
    this.#at = Math.min(this.#moments.length, Math.max(0, position));
    const moment = this.#moments[this.#at - 1];
    const status = moment ? `Step ${moment.number} of ${this.#moments.length}: ${moment.title}` : "The question";
    this.slider.value = String(this.#at);
    this.slider.setAttribute("aria-valuetext", status);
    this.slider.style.setProperty("--part", `${(this.#at / Math.max(1, this.#moments.length)) * 100}%`);
    this.status.textContent = status;
    this.show(this.#at);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (target.closest("input:not([type=range]), textarea, select, dialog, [data-node], .viewer, video")) return;
    if (event.key === "ArrowLeft") this.#seek(this.#at - 1);
    else if (event.key === "ArrowRight") this.#seek(this.#at + 1);
    else if (event.key === " " && !target.closest("button, a, summary")) this.toggle();
    else return;
    event.preventDefault();
  }
}
