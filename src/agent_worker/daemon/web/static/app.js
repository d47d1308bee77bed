// The page: signing in, which view is shown, and keeping it true. It knows no domain: a view names what it is made from
// (data-src), what makes it old (data-on), and what its forms do (data-do).

import { Failure, request, signIn, signedIn, whenSignedOut } from "./api.js";
import { Live } from "./live.js";
import { become, fill, nodes } from "./place.js";
import { Conversation } from "./conversation.js";
import { Definition } from "./definition.js";
import * as unread from "./unread.js";
import { forms } from "./forms.js";
import { keys } from "./keys.js";
import { drops } from "./drop.js";
import { filters } from "./filter.js";
import { downloads } from "./download.js";
import { edit } from "./editor.js";

const [side, main, line, door, menu] = ["side", "main", "line", "door", "menu"].map((id) => document.getElementById(id));
const badge = menu.querySelector(".badge");
const SIDE = "/page/side";
const KINDS = { home: [], workspace: ["at"], doc: ["at"], agent: ["name"], run: ["run"], runs: [], inbox: [], settings: [], file: ["file"], new: ["kind"], search: ["query"], start: ["workflow"], approval: [], audit: ["name"], "new-project": [], "new-document": ["at"], "new-proposal": ["at"] };
const SOURCES = { doc: "document" };
let conversation = null, title = "agent-worker", shown = 0;
let meanwhile = null;  // what happens while a view is on its way
let unreachable = false;  // the view could not be had because nobody answered
let happened = 0;  // events ever heard: by which one sees that something came while the list was on its way

// --- signing in

whenSignedOut(() => {
  if (door.open) return;
  document.getElementById("door-why").textContent = title === "agent-worker"
    ? "This page opens with a code that is good for one minute."
    : "You were signed out. Sign in again, and this page carries on where it was.";
  door.showModal();
});

door.querySelector("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = new FormData(event.target).get("code").trim();
  await enter(given.split("#code=").pop());
  event.target.reset();
});

async function enter(code) {
  const told = door.querySelector(".told");
  told.textContent = "";
  try {
    await signIn(code);
  } catch (error) {
    if (signedIn()) return begin();  // an old address was opened where a page is signed in
    whenOut();
    told.textContent = error.status === 401 ? "This code does not open the page: it was used, or is older than a minute. Type agent-worker web for a new one." : `${error.message}.`;
    return;
  }
  door.close();
  begin();
}

const whenOut = () => { if (!door.open) door.showModal(); };
door.addEventListener("cancel", (event) => event.preventDefault());  // there is nothing behind it

/** The code is taken out of the address before it is used: neither history nor a reload shows it again. */
function codeInAddress() {
  if (!location.hash.startsWith("#code=")) return null;
  const code = location.hash.slice("#code=".length);
  history.replaceState(null, "", location.pathname + (sessionStorage.getItem("place") ?? "#/home"));
  return code;
}

// --- views

function place() {
  const [path, query = ""] = location.hash.slice(2).split("?");
  const [kind, ...names] = path.split("/").map(unquoted);
  if (!Object.hasOwn(KINDS, kind || "home")) throw new Failure(404, { message: "There is nothing at this address." });
  const known = kind || "home", given = new URLSearchParams(query);
  if (given.has("in")) { given.set("project", given.get("in")); given.delete("in"); }
  KINDS[known].forEach((name, n) => given.set(name, names[n] ?? ""));
  return `/page/${SOURCES[known] ?? known}?${given}`;
}

const unquoted = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

/** What cannot be shown is said where it would have stood, with a way on. */
function cannot(error) {
  unreachable = error.status === 0;
  fill(main, '<div class="plain nowhere"><h1></h1><p class="empty"></p><p><a class="button" href="#/home">Home</a> <button type="button" class="quiet" data-again>Try again</button></p></div>');
  const homeless = error.status === 422 && !/[?&]in=/.test(location.hash);  // written by hand, or from when there was one
  main.querySelector("h1").textContent = homeless ? "This address does not say in which project." : sentence(error.message);
  main.querySelector(".empty").textContent = homeless ? "Choose it from the list of everything, or on Home." : error.hint;
  main.querySelector("[data-again]").addEventListener("click", show);
  title = "Not shown";
  conversation = null;
}

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? "" : "."}`;

async function show() {
  if (!signedIn()) return;
  const turn = ++shown;
  unreachable = false;
  sessionStorage.setItem("place", location.hash);
  closeMenu();
  markHere();
  main.setAttribute("aria-busy", "true");
  meanwhile = [];
  try {
    const view = await request("GET", place());
    if (turn !== shown) return;
    fill(main, view.html);
    title = view.title;
    conversation = main.querySelector(".log") ? new Conversation(main.querySelector(".workspace")) : null;
    if (main.querySelector("form.definition")) new Definition(main.querySelector("form.definition"));
    edit(main);
  } catch (error) {
    if (!(error instanceof Failure) || turn !== shown) return;
    cannot(error);
  }
  main.dataset.place = location.hash;
  main.removeAttribute("aria-busy");
  mark();
  const missed = meanwhile;
  meanwhile = null;
  missed.forEach(heard);  // it happened after the view was made, and before it was shown
}

/** The address of a workspace, whichever of its tabs or messages is meant. */
const whole = (hash) => hash.replace(/&(tab|seq)=[^&]*/g, "");

function mark() {
  unread.mark(side);
  const waiting = Number(side.querySelector("[data-waiting]")?.dataset.waiting ?? 0);
  badge.hidden = !waiting;
  badge.textContent = waiting;
  menu.setAttribute("aria-label", waiting ? `Menu, ${waiting} in the inbox` : "Menu");
  document.title = `${waiting ? `(${waiting}) ` : ""}${title} · agent-worker`;
  markHere();
}

/** In the list, where we are: at once, also if the view takes a while. */
function markHere() {
  for (const link of side.querySelectorAll("a[href]")) {
    const here = whole(link.getAttribute("href")) === whole(location.hash) || (location.hash === "" && link.hash === "#/home");
    here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
}

// --- panels

const old = new Set();
let renewing = null;

/** Not more often than a person can see; everything that became old meanwhile is asked for once. */
function renew(panel, wait = 120) {
  old.add(panel);
  renewing ??= setTimeout(async () => {
    const due = [...old].filter((each) => each.isConnected);
    old.clear();
    const sources = new Set(due.map((each) => each.dataset.src));
    await Promise.all([...sources].map((src) => renewNow(src, due).catch(() => {})));
    renewing = null;
    if (old.size) renew([...old][0]);
  }, wait);
}

async function renewNow(src, due) {
  const fresh = [...nodes((await request("GET", src)).html).querySelectorAll("[data-src]")];
  for (const panel of due) {
    const same = panel.dataset.src === src && fresh.find((each) => each.dataset.src === src && each.dataset.part === panel.dataset.part);
    if (same && panel.isConnected) { become(panel, same); edit(panel); }
  }
  if (src.startsWith(SIDE)) mark();
}

const panels = () => document.querySelectorAll(".panel[data-src]");

function heard(event) {
  happened += 1;
  meanwhile?.push(event);
  if (event.event === "gap") return renewAll();
  conversation?.heard(event);
  unread.heard(side, event);
  for (const panel of panels()) {
    const { on, of } = panel.dataset;
    if ((on === "*" || on.split(",").includes(event.event)) && (!of || of === event.workspace)) renew(panel);
  }
}

function renewAll() {
  conversation?.catchUp();
  for (const panel of panels()) renew(panel);
}

/** One sentence over everything, for what has no place of its own. */
function tell(text) {
  line.textContent = text;
  line.hidden = false;
  setTimeout(() => { if (line.textContent === text) line.hidden = true; }, 6000);
}

// --- folds, and what follows a form

forms((form) => {
  const panel = form.closest(".panel");
  if (panel) renew(panel, 0);
  if (side.firstElementChild) renew(side.firstElementChild);
});

document.addEventListener("toggle", async (event) => {
  const fold = event.target;
  if (!fold.open || !fold.dataset.load || fold.dataset.loaded !== undefined) return;
  fold.dataset.loaded = "";
  try {
    fold.append(nodes((await request("GET", fold.dataset.load)).html));
    edit(fold);
  } catch (error) {
    delete fold.dataset.loaded;
    fold.open = false;
  }
}, true);

document.addEventListener("click", (event) => {
  const more = event.target.closest("button.more");
  if (more) {
    const open = more.previousElementSibling.classList.toggle("open");
    more.setAttribute("aria-expanded", open);
    more.textContent = open ? "Show less" : "Show all";
  }
  const copy = event.target.closest("button[data-copy]");
  if (copy) navigator.clipboard?.writeText(copy.dataset.copy);
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});

// --- the frame

menu.addEventListener("click", () => {
  const open = side.classList.toggle("open");
  menu.setAttribute("aria-expanded", open);
});

function closeMenu() {
  side.classList.remove("open");
  menu.setAttribute("aria-expanded", false);
}

// What is open over the page closes by a click beside it, and by Escape, which leaves the focus at what opened it.
document.addEventListener("click", (event) => {
  if (side.classList.contains("open") && !side.contains(event.target) && !menu.contains(event.target)) closeMenu();
});

addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of document.querySelectorAll("details.menu[open]")) {
    open.open = false;
    open.querySelector("summary").focus();
  }
  if (!side.classList.contains("open")) return;
  closeMenu();
  if (menu.checkVisibility()) menu.focus();
});

document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });

unread.whenSeen(() => unread.mark(side));
let everConnected = false;
const live = new Live({
  heard,
  state(connected) {
    line.hidden = connected;
    line.textContent = "Not connected. Trying again…";
    document.body.dataset.live = connected;
    if (connected && everConnected) renewAll();
    if (connected && unreachable) show();
    everConnected ||= connected;
  },
});

async function begin() {
  live.run();
  const everything = request("GET", SIDE), before = happened;  // both are on their way at once
  if (main.dataset.place === location.hash) renewAll();  // signed in again: what was being written stays
  else await show();
  fill(side, (await everything).html);
  mark();
  if (happened !== before && side.firstElementChild) renew(side.firstElementChild);
}

addEventListener("hashchange", () => {
  const code = codeInAddress();
  code ? enter(code) : show();
});
keys({ main, side });
filters(main);
drops(main);
downloads(tell);

const code = codeInAddress();
if (code) enter(code);
else if (signedIn()) begin();
else door.showModal();
