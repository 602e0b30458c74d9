/** The sign-in form: exchanges the token for a session cookie. The token is not stored. */

import { post, Problem } from "./api.js";
import { announce, h, replace } from "./dom.js";

/**
 * @param {HTMLElement} root
 * @param {{signedIn: () => void, expired?: boolean, hasUsers?: boolean}} how `expired`: there was a session before; `hasUsers`:
 *   each user has a token.
 */
export function showSignIn(root, { signedIn, expired = false, hasUsers = false }) {
  const input = /** @type {HTMLInputElement} */ (
    h("input", { id: "token", name: "token", type: "password", required: true, autocomplete: "current-password", spellcheck: "false", "aria-describedby": "token-help token-problem" })
  );
  const problem = h("p", { id: "token-problem", class: "field-problem", role: "alert", hidden: true });
  const button = /** @type {HTMLButtonElement} */ (h("button", { type: "submit", class: "primary", text: "Sign in" }));
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    button.disabled = true;
    problem.hidden = true;
    try {
      await post("/session", { token: input.value.trim() });
      announce("Signed in");
      signedIn();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problem.hidden = false;
      problem.textContent = error.status === 401 ? "The token is wrong." : `${error.detail} ${error.hint}`.trim();
      input.setAttribute("aria-invalid", "true");
      input.select();
    } finally {
      button.disabled = false;
    }
  };
  replace(
    root,
    h(
      "section",
      { class: "sign-in", id: "sign-in" },
      h("img", { src: "static/icon.svg", alt: "", width: 44, height: 44 }),
      h("h1", { text: expired ? "You were signed out" : "Sign in" }),
      h("p", { class: "soft", text: expired ? "The session ended. Enter the token again; your draft is still here." : hasUsers ? "Enter your token." : "This server requires a token." }),
      h("form", { on: { submit } }, h("input", { autocomplete: "username", value: "vrag", hidden: true }), h("label", { class: "field" }, "Token", input), problem, button),
      h("p", { class: "faint size-1", id: "token-help" }, hasUsers ? "Ask the administrator of this server for your token." : ["The token is the value of ", h("code", { text: "VRAG_API_KEY" }), " on the server."], " The browser keeps a session cookie and not the token."),
    ),
  );
  input.focus();
}
