// A text that is edited: what saving it would change, what somebody else saved meanwhile, and a draft that stays when the
// view is left. Its form names where the text is now (data-now), and which field of the answer it is (data-now-text).

import { request } from "./api.js";
import { difference } from "./difference.js";

const drafts = new Map();  // what was begun and not saved, by where the text is, while this page is open
const editors = new WeakSet();

/** Every editor that is in the page now; called again after each change of it. */
export function edit(root) {
  for (const form of root.querySelectorAll("form[data-now]")) if (!editors.has(form)) { editors.add(form); new Editor(form); }
}

class Editor {
  constructor(form) {
    this.form = form;
    this.box = form.querySelector("textarea");
    this.diff = form.querySelector(".diff");
    this.note = form.querySelector(".meanwhile");
    this.key = form.dataset.now;
    form.addEventListener("input", () => { this.#keep(); this.#show(); });
    this.#restore();
    form.addEventListener("sending", () => { this.note.textContent = ""; });
    form.addEventListener("done", () => this.#forget());
    form.addEventListener("failed", ({ detail }) => { if (detail.error.code === "stale") this.#meanwhile(); });
  }

  get was() { return this.form.elements.was; }

  #restore() {
    const kept = drafts.get(this.key);
    if (!kept || kept.text === this.box.value) return;
    this.box.value = kept.text;
    if (this.was) this.was.value = kept.was;
    this.note.textContent = "This is what you had begun to write. Nothing of it is saved yet.";
    this.form.closest("details")?.setAttribute("open", "");
    this.form.dispatchEvent(new Event("input"));
  }

  #keep() {
    if (this.box.value === this.box.defaultValue) drafts.delete(this.key);
    else drafts.set(this.key, { text: this.box.value, was: this.was?.value ?? "" });
  }

  #forget() {
    drafts.delete(this.key);
    this.note.textContent = "";
    this.diff.hidden = true;
  }

  #show() {
    const before = this.was?.value ?? this.box.defaultValue;
    draw(this.diff, difference(before, this.box.value));
  }

  /** Somebody else saved it: their change is shown against what it was, and saving again replaces theirs by this. */
  async #meanwhile() {
    const answer = await request("GET", this.form.dataset.now).catch(() => null);
    if (!answer) return;
    const theirs = typeof answer === "string" ? answer : answer[this.form.dataset.nowText];
    this.was.value = theirs;
    this.#keep();
    this.form.querySelector(".told").textContent = "";
    this.note.textContent = "Somebody else saved it meanwhile. Below is the difference from what is saved now to what you wrote: take over what you want to keep of theirs, then Save again.";
    this.form.querySelector("button[type=submit]").textContent = "Save again";
    this.#show();
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
