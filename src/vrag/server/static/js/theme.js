/* Before the first paint, so that nobody sees the other theme flash: a plain script. */
{
  const kept = localStorage.getItem("vrag.theme");
  if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
}
