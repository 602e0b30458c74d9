/** What screen readers are told while a run goes on: what it does and how it ends, never every word. */

import { announce } from "../dom.js";
import { endingOf } from "./answer.js";

/** @typedef {import("./reducer.js").State} State */

/**
 * @param {State} before
 * @param {State} state
 */
export function say(before, state) {
  if (before.now === state.now) return;
  const { kind, text, what } = state.now;
  if (kind === "ended") return announce(endText(state));
  if (kind === "thinking" || (kind === before.now.kind && before.steps.at(-1)?.number === state.steps.at(-1)?.number)) return;
  announce(`${text} ${what}`.trim());
}

/** @param {State} state */
function endText(state) {
  const { name, said } = endingOf(state);
  return state.answer?.text ? `${name}: ${state.answer.text}` : `${name}. ${state.failure?.message ?? said}`;
}
