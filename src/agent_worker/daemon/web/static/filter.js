// Filters a list in place: an input with data-filter and a select with data-filter-kind, over the entries beside them.
// An entry is shown if something in it fits; of its parts (data-kinds), those that fit.

export function filters(main) {
  const renew = (event) => { const bar = event.target.closest?.(".filter"); if (bar) apply(bar); };
  main.addEventListener("input", renew);
  main.addEventListener("change", renew);
  // A panel that renews itself shows everything again.
  new MutationObserver(() => main.querySelectorAll(".filter").forEach(apply)).observe(main, { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden"] });
}

function apply(bar) {
  const wanted = bar.querySelector("[data-filter]").value.trim().toLowerCase();
  const kind = bar.querySelector("[data-filter-kind]").value;
  const entries = [...bar.parentElement.querySelectorAll("[data-entry]")];
  let shown = 0;
  for (const entry of entries) {
    const parts = [...entry.querySelectorAll("[data-kinds]")];
    const fitting = parts.filter((part) => fits(part, wanted, kind));
    for (const part of parts) set(part, !fitting.includes(part));
    set(entry, Boolean(wanted || kind) && !fitting.length);
    shown += fitting.length;
  }
  const told = bar.querySelector("[data-filter-told]"), text = wanted || kind ? `${shown} found` : "";
  if (told.textContent !== text) told.textContent = text;
}

const fits = (part, wanted, kind) =>
  (!kind || part.dataset.kinds.split(" ").includes(kind)) && (!wanted || part.textContent.toLowerCase().includes(wanted));

function set(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}
