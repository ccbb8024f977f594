// Keeps a page as it is now. Without it the page is the same, as it was when it was loaded.
"use strict";
(() => {
  const here = () => document.getElementById("live");
  const first = here();
  if (!first || !window.EventSource) return;
  let asked = false;

  const renew = async () => {
    if (asked) return;
    asked = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      if (!answer.ok) return;
      const made = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = made.getElementById("live") || made.querySelector("main > div");
      if (!next) return;
      const folds = new Map([...document.querySelectorAll("#live details[id]")].map((fold) => [fold.id, fold.open]));
      for (const fold of next.querySelectorAll("details[id]")) {
        if (folds.has(fold.id)) fold.open = folds.get(fold.id);
      }
      const focus = focused();
      here().replaceWith(next);
      document.title = made.title;
      if (focus) next.querySelector(focus)?.focus({ preventScroll: true });
      if (!here()) source.close();
    } finally {
      asked = false;
    }
  };

  // What finds the element again that has the focus: a link by its address, a fold by its name.
  const focused = () => {
    const at = document.activeElement;
    if (!at || !here().contains(at)) return null;
    if (at.matches("summary")) return `#${CSS.escape(at.parentElement.id)} > summary`;
    if (at.matches("a[href]")) return `a[href="${CSS.escape(at.getAttribute("href"))}"]`;
    return null;
  };

  const source = new EventSource(first.dataset.events);
  source.onmessage = (event) => {
    if (!here()) return;
    const { version, cells } = JSON.parse(event.data);
    if (version !== here().dataset.version) {
      renew();
      return;
    }
    for (const [name, text] of Object.entries(cells)) {
      for (const cell of document.querySelectorAll(`[data-cell="${CSS.escape(name)}"]`)) {
        if (cell.textContent !== text) cell.textContent = text;
      }
    }
  };
  addEventListener("pagehide", () => source.close());
})();
