// A channel: a window on a log that may be long. Only a stretch of it is in the document; more is fetched at both ends.
// What agents are writing just now stands below the last message, as plain text, until its message comes.

import { request } from "./api.js";
import { nodes } from "./place.js";
import { Compose } from "./compose.js";

const MOST = 240;      // rows in the document
const NEAR = 800;      // pixels from an end at which more is fetched
const TOGETHER = 5 * 60e6;  // microseconds in which messages of one sender stand together
const LONGEST = 4000;  // characters of what is being written

export class Workspace {
  #fetching = null;
  #again = false;

  constructor(element) {
    this.id = element.dataset.workspace;
    this.log = element.querySelector(".log");
    this.rows = this.log.querySelector(".rows");
    this.working = this.log.querySelector(".working");
    this.jump = element.querySelector(".jump");
    this.newest = Number(this.log.dataset.newest);
    this.log.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.log.addEventListener("newest", () => this.toNewest());
    this.jump.addEventListener("click", () => this.toNewest());
    this.#join([...this.rows.children]);
    this.#toEnd();
    const form = element.querySelector("form.compose");
    if (form) new Compose(form, () => this.toNewest());
    new ResizeObserver(() => { if (this.pinned) this.#toEnd(); }).observe(this.log);
  }

  get first() { return Number(this.rows.firstElementChild?.dataset.seq ?? 0); }
  get last() { return Number(this.rows.lastElementChild?.dataset.seq ?? 0); }
  get #fromEnd() { return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight; }
  pinned = true;  // the end is in sight, and stays so

  heard(event) {
    if (event.workspace !== this.id) return;
    switch (event.event) {
      case "message":
        this.newest = Math.max(this.newest, event.seq);
        return this.catchUp();
      case "started": return this.#work(event.run, event.name);
      case "chunk": return this.#write(event);
      case "tool_call": return this.#note(event, `${event.own ? "uses its own" : "calls"} ${event.tool}`);
      case "tool_result": return this.#note(event, "");
      case "retry": return this.#note(event, "failed, and tries again");
      case "ended": return this.#end(event.run);
    }
  }

  /** What came since the last row. However often it is called, one request is under way. */
  async catchUp() {
    if (this.#fetching) { this.#again = true; return; }
    if (this.rows.children.length && !this.pinned && this.rows.children.length >= MOST) return this.#offer();
    do {
      this.#again = false;
      this.#fetching = this.#more({ since: this.last, limit: 200 });
      const page = await this.#fetching.catch(() => null);
      this.#fetching = null;
      if (!page) return;
      this.#add(page, false);
      this.#again ||= page.last > 0 && page.last < page.newest && this.pinned;
    } while (this.#again);
  }

  async toNewest() {
    if (this.last < this.newest) {
      const page = await this.#more({ last: true });
      this.rows.replaceChildren();
      this.#add(page, false);
    }
    this.pinned = true;
    this.#toEnd();
  }

  async #more(wanted) {
    const page = await request("GET", this.log.dataset.src, wanted);
    this.newest = Math.max(this.newest, page.newest);
    return page;
  }

  #add(page, above) {
    const fresh = [...nodes(page.html).children].filter((row) => above ? Number(row.dataset.seq) < this.first : Number(row.dataset.seq) > this.last);
    const height = this.log.scrollHeight;
    above ? this.rows.prepend(...fresh) : this.rows.append(...fresh);
    this.#join(fresh.concat(fresh.at(-1)?.nextElementSibling ?? []));
    for (const row of fresh) if (row.dataset.run) this.#said(row.dataset.run);
    if (above) this.log.scrollTop += this.log.scrollHeight - height;
    this.#trim(above);
    if (!above && this.pinned) this.#toEnd();
    this.#offer();
  }

  /** Rows too many go at the other end, which is out of sight. */
  #trim(above) {
    const height = this.log.scrollHeight;
    while (this.rows.children.length > MOST) (above ? this.rows.lastElementChild : this.rows.firstElementChild).remove();
    if (!above && !this.pinned) this.log.scrollTop -= height - this.log.scrollHeight;
  }

  async #scrolled() {
    this.pinned = this.#fromEnd < 40 && this.last >= this.newest;
    this.#offer();
    if (this.#fetching) return;
    const up = this.log.scrollTop < NEAR && this.first > 1;
    const down = this.#fromEnd < NEAR && this.last < this.newest;
    if (!up && !down) return;
    this.#fetching = this.#more(up ? { before: this.first } : { since: this.last });
    const page = await this.#fetching.catch(() => null);
    this.#fetching = null;
    if (page) this.#add(page, up);
    if (this.#again) this.catchUp();  // something was said meanwhile
  }

  #offer() { this.jump.hidden = this.pinned || (this.last >= this.newest && this.#fromEnd < 400); }
  #toEnd() { this.log.scrollTop = this.log.scrollHeight; }

  /** Messages of one sender, said soon after each other, stand together; a new day is marked. */
  #join(rows) {
    for (const row of rows) {
      const before = row.previousElementSibling;
      const same = before && before.dataset.who === row.dataset.who && before.className.split(" ")[1] === row.className.split(" ")[1];
      row.classList.toggle("follows", Boolean(same) && row.dataset.at - before.dataset.at < TOGETHER);
      const day = (each) => new Date(each.dataset.at / 1000).toDateString();
      if (!before || day(before) !== day(row)) row.dataset.day = new Date(row.dataset.at / 1000).toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" });
      else delete row.dataset.day;
    }
  }

  // --- at work

  #row(run) { return this.working.querySelector(`[data-run="${CSS.escape(run)}"]`); }

  #work(run, name) {
    const known = this.#row(run);
    if (known) return known;
    const row = nodes('<li><span class="face" aria-hidden="true"></span><div class="said"><p class="head"><span class="who"></span><span class="note"></span></p><div class="writing"></div></div></li>').firstElementChild;
    row.dataset.run = run;
    row.querySelector(".face").textContent = name[0].toUpperCase();
    row.querySelector(".who").textContent = name;
    row.querySelector(".note").textContent = "is at work";
    this.working.append(row);
    if (this.pinned) this.#toEnd();
    return row;
  }

  #note(event, text) {
    this.#work(event.run, event.name).querySelector(".note").textContent = text || "is at work";
  }

  #write(event) {
    const row = this.#work(event.run, event.name), writing = row.querySelector(".writing");
    row.querySelector(".note").textContent = "is writing";
    writing.textContent = (writing.textContent + event.text).slice(-LONGEST);
    if (this.pinned) this.#toEnd();
  }

  /** Its message is there: what was being written is not shown twice. */
  #said(run) {
    const writing = this.#row(run)?.querySelector(".writing");
    if (writing) writing.textContent = "";
  }

  #end(run) { this.catchUp().then(() => this.#row(run)?.remove()); }
}
