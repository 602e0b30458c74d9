/** Entry point: checks the session and the server's options, and shows the sign-in form or the page. */

import { get, Problem } from "./api.js";
import { h } from "./dom.js";
import { showNotice } from "./overlays.js";
import { Page } from "./page.js";
import { openSidebar } from "./sidebar.js";
import { showSignIn } from "./sign-in.js";

const RETRY = 4_000;

const root = document.documentElement;
const main = /** @type {HTMLElement} */ (document.getElementById("main"));

/** Whether the server has several users. */
let hasUsers = false;

async function start() {
  try {
    const session = await get("/session");
    hasUsers = session.has_users;
    if (session.needed && !session.signed_in) showSignInPage(false);
    else open(await get("/options"), session);
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    if (error.status === 401) showSignInPage(false);
    else showFailure(error);
  }
}

/** @param {any} offer @param {import("./past-runs.js").Session} session */
function open(offer, session) {
  localStorage.setItem("vrag.start", "page"); // the next visit asks for all of it at once; see first.js
  const page = new Page(offer, session);
  delete root.dataset.noShell;
  delete root.dataset.first;
  window.addEventListener(
    "vrag:signed-out",
    (event) => {
      if (/** @type {CustomEvent} */ (event).detail?.byHand) return location.reload(); // drops everything that was shown
      page.close();
      showSignInPage(true);
    },
    { once: true },
  );
  page.open();
}

/** @param {boolean} expired */
function showSignInPage(expired) {
  localStorage.setItem("vrag.start", "sign-in");
  delete root.dataset.first;
  root.dataset.noShell = "";
  openSidebar(false, false);
  for (const id of ["sidebar", "toolbar"]) document.getElementById(id)?.replaceChildren();
  document.title = "Sign in · vrag";
  showSignIn(main, { signedIn: () => location.reload(), expired, hasUsers });
}

/** @param {Problem} problem */
function showFailure(problem) {
  root.dataset.noShell = "";
  const again = setTimeout(start, RETRY);
  const now = () => {
    clearTimeout(again);
    start();
  };
  const button = h("button", { type: "button", class: "primary", text: "Try again", on: { click: now } });
  showNotice(main, { id: "server-away", level: "h1", title: problem.detail, hint: problem.hint, actions: [button] });
}

start();
