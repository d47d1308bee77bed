// The file of an agent or a workflow while it is edited: what `validate` would say of it, and what saving it would change.

import { request } from "./api.js";
import { draw } from "./editor.js";

const PAUSE = 250;  // milliseconds without a key after which it is looked at

export class Definition {
  #timer = null;
  #asked = 0;

  constructor(form) {
    this.form = form;
    this.problems = form.querySelector(".problems");
    this.diff = form.querySelector(".diff");
    const box = form.querySelector("textarea");
    if (box.dataset.line) show(box, Number(box.dataset.line));
    form.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#check(), PAUSE);
    });
  }

  async #check() {
    const turn = ++this.#asked, { file, text, project } = Object.fromEntries(new FormData(this.form));
    const found = await request("POST", "/definition", { file, text, ...(project && { project }) })
      .catch((error) => ({ problems: [error.message], diff: [] }));
    if (turn !== this.#asked) return;
    this.problems.replaceChildren(...found.problems.map((told) => made("li", told)));
    if (!this.form.dataset.now) draw(this.diff, found.diff);
  }
}

/** A line of a text is selected, and in sight. */
function show(box, line) {
  const lines = box.value.split("\n"), start = lines.slice(0, line - 1).join("\n").length + (line > 1);
  box.focus();
  box.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
  box.scrollTop = box.scrollHeight * (line - 4) / lines.length;
}

function made(tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  return element;
}
