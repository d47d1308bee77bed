// Keys. Letters do nothing while somebody writes.

const KEYS = [
  ["j k", "next and previous entry"],
  ["Enter", "open the entry"],
  ["a · x", "approve, deny the entry that is in focus"],
  ["r", "approve it for the whole run; retry what failed"],
  ["1 … 9", "answer it with that option"],
  ["c", "write a message"],
  ["/ · Ctrl-K", "find a name; where none fits, Enter searches everything: words, runs, memory, commands"],
  ["g h", "home"],
  ["g i", "inbox"],
  ["g s", "settings"],
  ["g w", "the first workspace"],
  ["g c · g d · g v · g m", "channel, documents, decisions, map of a workspace"],
  ["G", "the newest message"],
  ["Esc", "leave a field"],
  ["?", "this list"],
];
const TABS = { c: "channel", d: "documents", v: "decisions", m: "map", t: "team" };
const ENTRIES = "li.msg, [data-entry]";

export function keys({ main, side }) {
  const help = document.getElementById("help");
  help.querySelector("dl").append(...KEYS.flatMap(([key, what]) => [made("dt", key), made("dd", what)]));
  let afterG = 0;

  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && !document.querySelector("dialog[open]")) {
      event.preventDefault();
      return find();
    }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape" && writes(event.target)) return event.target.blur();
    if (writes(event.target) || document.querySelector("dialog[open]")) return;
    const second = Date.now() - afterG < 1200;
    afterG = 0;
    const act = second ? go(event.key) : answer(event.key) ?? plain(event);
    if (act) { event.preventDefault(); act(); }
  });

  function plain(event) {
    switch (event.key) {
      case "j": return () => step(1);
      case "k": return () => step(-1);
      case "g": return () => { afterG = Date.now(); };
      case "G": return () => main.querySelector(".log")?.dispatchEvent(new Event("newest"));
      case "c": return () => main.querySelector(".compose textarea, form[data-write] textarea")?.focus();
      case "/": return find;
      case "?": return () => help.showModal();
      case "Enter": return event.target.matches?.(ENTRIES) ? () => event.target.querySelector("a[href]")?.click() : null;
    }
    return null;
  }

  /** An item that waits for an answer is answered by a key only while it is in focus: the first press goes to it. */
  function answer(key) {
    const here = document.activeElement.closest("[data-entry]");
    const button = (entry) => [...entry.querySelectorAll("[data-press]")].find((each) => each.dataset.press === key);
    if (here && button(here)) return () => button(here).click();
    const first = here ? null : [...main.querySelectorAll("[data-entry].item")].find(button);
    return first ? () => focus(first) : null;
  }

  function go(key) {
    if (key === "h") return () => { location.hash = "#/home"; };
    if (key === "i") return () => { location.hash = "#/inbox"; };
    if (key === "s") return () => { location.hash = "#/settings"; };
    if (key === "w") return () => side.querySelector('a[href^="#/workspace/"]')?.click();
    const tab = TABS[key] && main.querySelector(`.tabs a.${TABS[key]}`);
    return tab ? () => tab.click() : null;
  }

  function find() {
    side.classList.add("open");
    side.querySelector("input")?.focus();
  }

  function step(by) {
    const all = [...main.querySelectorAll(ENTRIES)];
    if (!all.length) return;
    const now = all.indexOf(document.activeElement.closest(ENTRIES));
    const start = main.querySelector(".log") ? all.length : -1;
    const next = all[Math.min(Math.max((now < 0 ? start : now) + by, 0), all.length - 1)] ?? all[0];
    focus(next);
  }

  function focus(entry) {
    entry.tabIndex = -1;
    entry.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
  }

  // Finding: the list of everything shows what fits; Enter opens the first, or searches what was said and written.
  const searching = (text) => `#/search/${encodeURIComponent(text.trim())}`;
  side.addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase(), everything = side.querySelector(".everything");
    everything.hidden = !wanted.trim();
    everything.firstElementChild.href = searching(event.target.value);
    for (const entry of side.querySelectorAll("li[data-name]")) entry.hidden = !entry.dataset.name.includes(wanted);
  });
  side.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target.tagName !== "INPUT") return;
    event.preventDefault();
    const text = event.target.value, first = side.querySelector("li[data-name]:not([hidden]) a");
    if (first) first.click();
    else if (text.trim()) location.hash = searching(text);
    event.target.value = "";
    event.target.dispatchEvent(new Event("input", { bubbles: true }));
    event.target.blur();
  });
}

const writes = (element) => element.matches?.("input, textarea, select");

function made(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
