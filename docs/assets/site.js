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

// Code that fits into the line of a phone is kept in one piece.
for (const code of document.querySelectorAll(".md-typeset :not(pre) > code")) {
  code.classList.toggle("short", code.textContent.length <= 24);
}
