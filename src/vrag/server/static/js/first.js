/*
 * Before the first paint: the theme, the place of the sidebar, and the outline of the first page, so that nothing flashes
 * or jumps when the modules arrive. Asks at once for what the modules will ask for (a preload link would be warned of where
 * they come late); api.js takes the answers. What is typed meanwhile is kept as the draft that the question box begins with.
 * A plain script.
 */
{
  const root = document.documentElement;
  const theme = localStorage.getItem("vrag.theme");
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;

  const before = "token" in root.dataset ? localStorage.getItem("vrag.start") : "page"; // what the last visit began with; see app.js
  if (before !== "sign-in") {
    delete root.dataset.noShell;
    const room = matchMedia("(min-width: 1100px)").matches;
    root.dataset.sidebar = room && localStorage.getItem("vrag.rail") !== "closed" ? "open" : "closed";
    if (/^(#\/?)?$/.test(location.hash)) root.dataset.first = "";
  }
  const ahead = new Map(["/session", ...(before === "page" ? ["/options", "/runs?limit=100&asker=people"] : [])].map((path) => [path, fetch(path.slice(1))]));
  for (const answer of ahead.values()) answer.catch(() => {}); // told to the one who takes it
  Object.assign(window, { vragAhead: ahead });
  addEventListener("input", ({ target }) => {
    if (target instanceof HTMLTextAreaElement && target.id === "first-box") sessionStorage.setItem("vrag.draft.", target.value);
  });
}
