// The box to write in: completes names of members, and says who would wake, as the daemon itself finds it.

import { request } from "./api.js";

export class Compose {
  #asked = 0;
  #timer = null;
  #at = 0;
  #failed = null;  // what could not be sent

  /** `told` hears of each message: sending(text, key), then sent(key) or failed(key). */
  constructor(form, told) {
    this.form = form;
    this.box = form.querySelector("textarea");
    this.list = form.querySelector(".complete");
    this.wakes = form.querySelector(".wakes");
    this.silent = [this.wakes.textContent, this.wakes.classList.contains("calls")];
    this.names = JSON.parse(this.box.dataset.members ?? "[]");
    this.preview = JSON.parse(this.box.dataset.preview ?? "null");
    this.box.addEventListener("input", () => this.#typed());
    this.box.addEventListener("keydown", (event) => this.#key(event));
    this.box.addEventListener("blur", () => setTimeout(() => this.#close(), 150));
    this.list?.addEventListener("mousedown", (event) => { event.preventDefault(); this.#take(event.target.textContent); });
    form.addEventListener("sending", ({ detail }) => this.#sending(detail));
    form.addEventListener("done", ({ detail }) => told.sent(detail.key));
    form.addEventListener("failed", ({ detail }) => this.#comeBack(detail));
    this.told = told;
    this.#restore();
  }

  get #draft() { return `draft:${this.form.dataset.do}:${this.box.getAttribute("aria-label")}:${new FormData(this.form).get("project") ?? ""}`; }

  /** What was begun stays when the view is left or loaded anew, until it is sent. */
  #restore() {
    const kept = sessionStorage.getItem(this.#draft);
    if (kept === null) return;
    this.#put(kept);
    this.#typed();
  }

  /** A text that is too long to be kept in a browser is not kept. */
  #keep() {
    try {
      this.box.value ? sessionStorage.setItem(this.#draft, this.box.value) : sessionStorage.removeItem(this.#draft);
    } catch { sessionStorage.removeItem(this.#draft); }
  }

  /** The box is free at once. */
  #sending(sent) {
    const text = sent.given.message;
    sent.key = this.#failed?.text === text ? this.#failed.key : crypto.randomUUID();
    sent.given.key = sent.key;
    this.#failed = null;
    this.told.sending(text, sent.key);
    this.#put("");
    this.#say(...this.silent);
  }

  /** What could not be sent is in the box again; sent once more, it is the same message, and cannot be said twice. */
  #comeBack({ given, key }) {
    this.#failed = { text: given.message, key };
    this.told.failed(key);
    if (!this.box.value) this.#put(given.message);
  }

  #put(text) {
    this.box.value = text;
    this.#keep();
    this.#grow();
  }

  #grow() {
    this.box.style.height = "";
    this.box.style.height = `${Math.min(this.box.scrollHeight + 2, 240)}px`;
  }

  #typed() {
    this.#keep();
    this.#grow();
    if (!this.preview) return;
    this.#complete();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), 120);
  }

  async #ask() {
    const text = this.box.value, turn = ++this.#asked;
    if (!text.includes("@")) return this.#say(...this.silent);
    const found = await request("POST", "/preview", { ...this.preview, message: text }).catch(() => null);
    if (!found || turn !== this.#asked) return;
    const parts = [];
    if (found.names.length) parts.push(`Wakes ${found.names.join(", ")}.`);
    const unknown = found.unknown.filter((name) => this.list.hidden || name !== this.#begun());  // that one is being completed
    if (unknown.length) parts.push(`Not a member: ${unknown.join(", ")}.`);
    this.#say(parts.join(" ") || this.silent[0], found.names.length > 0);
  }

  #say(text, calls) {
    this.wakes.textContent = text;
    this.wakes.classList.toggle("calls", calls);
  }

  // --- names

  #begun() { return this.box.value.slice(0, this.box.selectionStart).match(/(?:^|[^\w@])@([\w-]*)$/)?.[1]; }

  #complete() {
    const begun = this.#begun();
    const fit = begun === undefined ? [] : this.names.filter((name) => name.toLowerCase().startsWith(begun.toLowerCase()));
    if (!fit.length || (fit.length === 1 && fit[0] === begun)) return this.#close();
    this.#at = 0;
    this.list.replaceChildren(...fit.map((name, n) => {
      const option = document.createElement("li");
      option.textContent = name;
      option.role = "option";
      option.id = `complete-${n}`;
      return option;
    }));
    this.list.hidden = false;
    this.#point();
  }

  #point() {
    [...this.list.children].forEach((option, n) => option.setAttribute("aria-selected", n === this.#at));
    this.box.setAttribute("aria-activedescendant", `complete-${this.#at}`);
  }

  #close() {
    if (this.list) this.list.hidden = true;
    this.box.removeAttribute("aria-activedescendant");
  }

  #take(name) {
    const end = this.box.selectionStart, start = end - this.#begun().length;
    this.box.setRangeText(`${name} `, start, end, "end");
    this.#close();
    this.#typed();
  }

  #key(event) {
    const open = this.list?.hidden === false, many = this.list?.children.length;
    if (open && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      this.#at = (this.#at + (event.key === "ArrowDown" ? 1 : many - 1)) % many;
      this.#point();
    } else if (open && (event.key === "Enter" || event.key === "Tab")) {
      this.#take(this.list.children[this.#at].textContent);
    } else if (open && event.key === "Escape") {
      this.#close();
      event.stopPropagation();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      this.form.requestSubmit();
    } else return;
    event.preventDefault();
  }
}
