// Theme, size, print; then everything is drawn.
function redraw() {
  for (const draw of charts) draw();
}

function isDark() {
  const chosen = root.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function theme() {
  const toggle = document.getElementById("theme");
  const label = () => { toggle.textContent = isDark() ? "Light" : "Dark"; };
  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { label(); redraw(); });
  label();
  // On paper everything is dark on white.
  let before;
  addEventListener("beforeprint", () => { before = root.dataset.theme; root.dataset.theme = "light"; redraw(); });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
    redraw();
  });
}

let waiting;
addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(redraw, 100); });
for (const part of [growth, days, families, whatif, loss, metrics, theme]) part();
tables().then(() => { root.dataset.ready = "yes"; });
