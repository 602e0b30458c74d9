/* Says that the page could not be loaded, where a module did not arrive or failed before anything was shown. A plain script. */
{
  const failed = () => {
    const starting = document.getElementById("starting");
    const unloaded = document.getElementById("unloaded");
    if (!starting || !unloaded?.hidden) return; // the page has taken their place
    delete document.documentElement.dataset.first;
    document.documentElement.dataset.noShell = "";
    starting.hidden = true;
    unloaded.hidden = false;
    document.getElementById("load-again")?.addEventListener("click", () => location.reload());
  };
  /** @param {Event} event */
  const noted = (event) => {
    const target = event.target;
    if (target instanceof HTMLElement && target.tagName !== "SCRIPT") return; // the page can be used without a picture
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", failed);
    else failed();
  };
  addEventListener("error", noted, true); // of scripts it does not bubble
  addEventListener("unhandledrejection", noted);
}
