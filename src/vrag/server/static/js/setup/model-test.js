/** The test of a model: one line for each check, as it ends, with what to do. */

import { postLines } from "../api.js";
import { announce, h, icon, replace } from "../dom.js";
import { rewriteForPage } from "../messages.js";

/**
 * @typedef {{name: string, title: string, subject: string}} Planned
 * @typedef {{name: string, status: "ok" | "warning" | "failed" | "skipped", message: string, hint: string}} Result
 */

/** @type {Record<string, [string, string]>} A sign and a word for each status. */
const SIGNS = { ok: ["check", "Works"], warning: ["warn", "Works with limits"], failed: ["close", "Does not work"], skipped: ["minus", "Not checked"] };

export class ModelTest {
  /** @type {AbortController | null} */
  #control = null;
  #list = h("ol", { class: "checks", id: "setup-checks", "aria-label": "Checks" });
  #end = h("p", { class: "checks-end", id: "setup-test-end", role: "status" });
  element = h("div", { class: "setup-test", hidden: true }, this.#list, this.#end);

  get running() {
    return this.#control !== null;
  }

  stop() {
    this.#control?.abort();
  }

  /**
   * Runs it; the promise is kept when it has ended or was stopped.
   * @param {{server: string, model: string, key?: string, profile: string}} asked
   */
  async run(asked) {
    const control = (this.#control = new AbortController());
    /** @type {Planned[]} */
    let plan = [];
    /** @type {Result[]} */
    const results = [];
    let end = "";
    this.element.hidden = false;
    replace(this.#list);
    this.#tell("Testing", "");
    try {
      await postLines("/setup/test", asked, {
        signal: control.signal,
        line: (line) => {
          if (line.checks) plan = line.checks;
          if (line.result) results.push(line.result);
          if (line.end) end = line.end;
          this.#show(plan, results, end);
        },
      });
      this.#tell(...verdict(results, end));
    } catch (error) {
      this.#show(plan, results, "stopped");
      if (!control.signal.aborted) {
        this.#tell("", "");
        throw error;
      }
      this.#tell("The test was stopped.", "");
    } finally {
      this.#control = null;
    }
  }

  /** @param {Planned[]} plan @param {Result[]} results @param {string} end */
  #show(plan, results, end) {
    const next = end ? undefined : plan.find((check) => !results.some((result) => result.name === check.name));
    replace(this.#list, plan.map((check) => row(check, results.find((result) => result.name === check.name), check === next)));
    const last = results.at(-1);
    const title = plan.find((check) => check.name === last?.name)?.title;
    if (last && !end) announce(`${title}: ${SIGNS[last.status][1]}. ${rewriteForPage(`${last.message} ${last.hint}`)}`);
  }

  /** @param {string} text @param {string} kind */
  #tell(text, kind) {
    this.#end.className = `checks-end ${kind}`;
    this.#end.textContent = text;
  }
}

/**
 * What all results come to: a sentence and the class of its colour.
 * @param {{status: string}[]} results
 * @param {string} end
 * @returns {[string, string]}
 */
export function verdict(results, end) {
  const has = (/** @type {string} */ status) => results.some((result) => result.status === status);
  if (has("failed")) return ["This model cannot be used yet. Do what the failed check says and test again.", "danger"];
  if (end !== "finished") return ["The test took too long and was ended. The server may be busy or still loading the model.", "mark"];
  if (has("warning")) return ["This model can be used, with the limits above.", "mark"];
  return ["Everything works. Save the model to use it.", "ok"];
}

/** @param {Planned} check @param {Result | undefined} result @param {boolean} current */
function row({ name, title, subject }, result, current) {
  const [sign, word] = SIGNS[result?.status ?? ""] ?? ["dot", current ? "Checking" : "Waiting"];
  return h(
    "li",
    { class: `check ${result?.status ?? (current ? "current" : "waiting")}`, dataset: { check: name, status: result?.status ?? "" } },
    current && !result ? h("span", { class: "spinner" }) : icon(sign),
    h("div", { class: "grow" }, h("p", h("b", { text: title }), h("span", { class: "hidden-text", text: `: ${word}` }), h("span", { class: "faint size-1", text: ` ${subject}` })), result && h("p", { class: "size-2", dir: "auto", text: rewriteForPage(result.message) }), result?.hint && h("p", { class: "check-hint size-2", dir: "auto", text: rewriteForPage(result.hint) })),
  );
}
