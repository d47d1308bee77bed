// A text that is edited: what saving it would change, what somebody else saved meanwhile, a draft that stays when the
// view is left, and how it would look (a form with a .preview). Its form names where the text is now (data-now), and
// which field of the answer it is (data-now-text).

import { request } from "./api.js";
import { difference } from "./difference.js";
import { nodes } from "./place.js";

const PAUSE = 300;  // milliseconds without a key after which it is drawn
const editors = new WeakSet();

/** Every editor that is in the page now; called again after each change of it. */
export function edit(root) {
  for (const form of root.querySelectorAll("form[data-now]")) if (!editors.has(form)) { editors.add(form); new Editor(form); }
}

class Editor {
  #timer = null;
  #asked = 0;
  #begun = null;  // the text this one was begun from, where that is not the one the view was made with

  constructor(form) {
    this.form = form;
    this.box = form.querySelector("textarea");
    this.diff = form.querySelector(".diff");
    this.note = form.querySelector(".meanwhile");
    this.preview = form.querySelector(".preview");
    this.fold = form.closest("details");
    form.addEventListener("input", () => this.#typed());
    form.addEventListener("sending", () => { this.note.textContent = ""; });
    form.addEventListener("done", () => this.#forget());
    form.addEventListener("failed", ({ detail }) => { if (detail.error.code === "stale") this.#meanwhile(); });
    if (this.preview) this.fold?.addEventListener("toggle", () => { if (this.fold.open) this.#draw(); });
    this.#restore();
  }

  get base() { return this.#begun ?? this.form.elements.was?.value ?? this.box.defaultValue; }
  get key() { return `draft:${this.form.dataset.now}`; }

  /** What was being written when the view was left, from what it was begun at: nothing is overwritten by it. */
  #restore() {
    const kept = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    if (!kept || kept.text === this.box.value) return sessionStorage.removeItem(this.key);
    this.box.value = kept.text;
    this.#begunAt(kept);
    this.note.textContent = "This is your draft. It is not saved yet.";
    this.fold?.setAttribute("open", "");
    this.form.dispatchEvent(new Event("input"));
  }

  /** The text that this one is to replace, as the operation wants to know it: by its words, or by its revision. */
  #begunAt({ base, revision }) {
    const { was, revision: field } = this.form.elements;
    this.#begun = base;
    if (was) was.value = base;
    if (field) field.value = revision;
  }

  #typed() {
    this.#keep();
    draw(this.diff, difference(this.base, this.box.value));
    clearTimeout(this.#timer);
    if (this.preview) this.#timer = setTimeout(() => this.#draw(), PAUSE);
  }

  #keep() {
    if (this.box.value === this.box.defaultValue) return sessionStorage.removeItem(this.key);
    sessionStorage.setItem(this.key, JSON.stringify({ text: this.box.value, base: this.base, revision: this.form.elements.revision?.value }));
  }

  #forget() {
    sessionStorage.removeItem(this.key);
    this.#begun = null;
    this.note.textContent = "";
    this.diff.hidden = true;
    this.#button("Save");
    if (this.preview && this.fold) this.fold.open = false;
  }

  /** Somebody else saved it: their change is shown against what it was, and saving again replaces theirs by this. */
  async #meanwhile() {
    const answer = await request("GET", this.form.dataset.now).catch(() => null);
    if (!answer) return;
    this.#begunAt({ base: typeof answer === "string" ? answer : answer[this.form.dataset.nowText], revision: answer.revision });
    this.form.querySelector(".told").textContent = "";
    this.note.textContent = "Somebody else saved it in the meantime. Below is how your text differs from what is saved now: copy what you want to keep of theirs, then Save again.";
    this.#button("Save again");
    this.#typed();
  }

  #button(word) { this.form.querySelector("button[type=submit]").textContent = word; }

  async #draw() {
    const turn = ++this.#asked, { name } = this.preview.dataset;
    const view = await request("POST", "/page/preview", { name, text: this.box.value }).catch(() => null);
    if (view && turn === this.#asked) this.preview.replaceChildren(nodes(view.html));
  }
}

export function draw(element, lines) {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  element.hidden = !lines.length;
  element.replaceChildren(...lines.map((line) => {
    const span = document.createElement("span");
    span.textContent = `${line}\n`;
    if (kinds[line[0]]) span.className = kinds[line[0]];
    return span;
  }));
}
