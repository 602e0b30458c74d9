// A table that is wider than the window can be scrolled by keyboard, too.
window.addEventListener("load", () => {
  for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
      table.setAttribute("role", "region");
      table.setAttribute("aria-label", "Table");
    }
  }
});
