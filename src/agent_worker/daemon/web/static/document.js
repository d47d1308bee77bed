// A document while it is edited: how it would look, a draft that outlives the view, and what to do when somebody else
// has changed it meanwhile: their text against yours, then Save again.

import { request } from "./api.js";
import { draw } from "./editor.js";
import { nodes } from "./place.js";

const PAUSE = 300;  // milliseconds without a key after which it is drawn

export class DocumentEditor {
  #timer = null;
  #asked = 0;

  constructor(form) {
    this.form = form;
    this.fold = form.closest("details");
    this.box = form.elements.text;
    this.preview = form.querySelector(".preview");
    this.conflict = form.querySelector(".conflict");
    this.told = form.querySelector(".draft");
    this.key = `draft:${form.elements.project?.value ?? ""}:${form.elements.at.value}:${this.fold.dataset.name}`;
    this.#restore();
    form.addEventListener("input", () => this.#typed());
    this.fold.addEventListener("toggle", () => { if (this.fold.open) this.#draw(); });
    form.addEventListener("failed", ({ detail }) => { if (detail.error.status === 409) this.#compare(); });
    form.addEventListener("done", () => this.#saved());
  }

  /** What was being written when the view was left, from the revision it was begun at: nothing is overwritten by it. */
  #restore() {
    const kept = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
    if (!kept || kept.text === this.box.value) return sessionStorage.removeItem(this.key);
    this.box.value = kept.text;
    this.form.elements.revision.value = kept.revision;
    this.told.textContent = "Your draft, not saved yet.";
    this.fold.open = true;
  }

  #typed() {
    sessionStorage.setItem(this.key, JSON.stringify({ text: this.box.value, revision: this.form.elements.revision.value }));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#draw(), PAUSE);
  }

  async #draw() {
    const turn = ++this.#asked;
    const view = await request("POST", "/page/preview", { name: this.fold.dataset.name, text: this.box.value }).catch(() => null);
    if (view && turn === this.#asked) this.preview.replaceChildren(nodes(view.html));
  }

  async #compare() {
    const { at, project } = this.form.elements;
    const found = await request("POST", `/compare/${encodeURI(this.fold.dataset.name)}`, { at: at.value, text: this.box.value, ...(project && { project: project.value }) }).catch(() => null);
    if (!found) return;
    this.form.elements.revision.value = found.revision;
    const said = document.createElement("p"), diff = document.createElement("pre");
    said.className = "why";
    said.textContent = "Somebody has changed it meanwhile. This is what saving yours would change in it now; change your text, or save again.";
    diff.className = "diff";
    draw(diff, found.diff);
    this.conflict.replaceChildren(said, diff);
    this.form.querySelector("button").textContent = "Save again";
    this.#typed();
  }

  #saved() {
    sessionStorage.removeItem(this.key);
    this.conflict.replaceChildren();
    this.told.textContent = "";
    this.form.querySelector("button").textContent = "Save";
    this.fold.open = false;
  }
}
