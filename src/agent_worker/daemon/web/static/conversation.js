// A conversation, in a channel or with one agent: a window on a log that may be long. Only a stretch of it is in the
// document; more is fetched at both ends. Below the last message stand what was just sent, and what agents are writing.

import { request } from "./api.js";
import { nodes } from "./place.js";
import { Compose } from "./compose.js";
import { Follow } from "./follow.js";
import { firstUnread, see } from "./unread.js";

const MOST = 240;      // rows in the document
const SLACK = 60;      // so many more, before those too many go: all at once is cheaper than one with each that comes
const BREATH = 40;     // milliseconds between two looks for more, in which what is typed is painted
const NEAR = 800;      // pixels from an end at which more is fetched
const TOGETHER = 5 * 60e6;  // microseconds in which messages of one sender stand together
const MOST_SENT = 40;  // keys in one question
const LONGEST = 4000;  // characters of what is being written
const DAY = new Intl.DateTimeFormat([], { weekday: "short", day: "numeric", month: "short" });

export class Conversation {
  #fetching = false;
  #again = false;
  #sent = new Map();     // key of what was sent → the row that stands for it until the daemon shows it; null: it failed
  #stored = new Set();   // keys of what failed here, and was said all the same

  constructor(element) {
    this.log = element.querySelector(".log");
    this.workspace = this.log.dataset.workspace ?? null;
    this.agent = this.log.dataset.agent ?? null;
    this.rows = this.log.querySelector(".rows");
    this.pending = this.log.querySelector(".pending");
    this.working = this.log.querySelector(".working");
    this.jump = element.querySelector(".jump");
    this.newest = Number(this.log.dataset.newest);
    this.#join([...this.rows.children]);
    firstUnread(this.workspace, this.rows)?.classList.add("unread");
    this.follow = new Follow(this.log, () => this.#moved());
    this.log.addEventListener("newest", () => this.toNewest());
    this.jump.addEventListener("click", () => this.toNewest());
    document.addEventListener("visibilitychange", () => this.#seen());
    const form = element.querySelector("form.compose");
    if (form) new Compose(form, { sending: (text, key) => this.#sending(text, key), sent: (key) => this.#arrived(key), failed: (key) => this.#failed(key) });
    this.#openAt(this.log.dataset.open);
    this.#seen();
  }

  /** A message that was looked for: it is in sight, and in focus. */
  #openAt(seq) {
    const row = seq && this.rows.querySelector(`[data-seq="${CSS.escape(seq)}"]`);
    if (!row) return;
    this.follow.pinned = false;
    row.scrollIntoView({ block: "center" });
    row.focus({ preventScroll: true });
    this.#offer();
  }

  get first() { return Number(this.rows.firstElementChild?.dataset.seq ?? 0); }
  get last() { return Number(this.rows.lastElementChild?.dataset.seq ?? 0); }
  get #atEnd() { return this.follow.pinned && this.last >= this.newest; }

  heard(event) {
    if (this.workspace ? event.workspace !== this.workspace : event.workspace || event.agent !== this.agent) return;
    switch (event.event) {
      case "message":
        this.newest = Math.max(this.newest, event.seq);
        return this.catchUp();
      case "queued": return this.agent ? this.catchUp() : undefined;
      case "started":
        this.#work(event);
        return this.agent ? this.catchUp() : undefined;
      case "chunk": return this.#write(event);
      case "tool_call": return this.#doing(event, `${event.own ? "uses its own" : "calls"} ${event.tool}`);
      case "tool_result": return this.#doing(event, "");
      case "retry": return this.#doing(event, "failed, and tries again");
      case "ended": return this.#end(event);
    }
  }

  /** What came since the last row. However often it is called, one request is under way. */
  async catchUp() {
    if (this.#fetching) { this.#again = true; return; }
    if (this.rows.children.length >= MOST && !this.follow.pinned) return this.#offer();
    this.#fetching = true;
    try {
      do {
        this.#again = false;
        const page = await this.#more({ since: this.last, limit: 200 });
        this.#add(page, false);
        this.#again ||= page.last > 0 && page.last < page.newest && this.follow.pinned;
        if (this.#again) await new Promise((done) => setTimeout(done, BREATH));
      } while (this.#again);
    } catch { /* not connected: it is tried again when we are */ }
    this.#fetching = false;
    this.#moved();  // whoever reached an end meanwhile stands there, and moves no more
  }

  async toNewest() {
    if (this.last < this.newest) {
      const page = await this.#more({ last: true }).catch(() => null);
      if (page?.last > this.last) {  // else the rows were caught up with meanwhile
        this.rows.replaceChildren();
        this.#add(page, false);
      }
    }
    this.follow.pin();
    if (this.last < this.newest) this.catchUp();
    this.#offer();
    this.#seen();
  }

  async #more(wanted) {
    const sent = [...this.#sent.keys()].slice(0, MOST_SENT).join(",");
    const page = await request("GET", this.log.dataset.src, { ...wanted, ...(sent && { sent }) });
    this.newest = Math.max(this.newest, page.newest);
    return page;
  }

  #add(page, above) {
    const fresh = [...nodes(page.html).children].filter((row) => above ? Number(row.dataset.seq) < this.first : Number(row.dataset.seq) > this.last);
    if (fresh.length) this.log.querySelector(".begin")?.remove();
    const height = above ? this.log.scrollHeight : 0;
    above ? this.rows.prepend(...fresh) : this.rows.append(...fresh);
    this.#join(fresh.concat(fresh.at(-1)?.nextElementSibling ?? []));
    for (const row of fresh) if (row.dataset.run) this.#said(row.dataset.run);
    if (!above) this.#came(page.stored, [...nodes(page.pending).children]);
    if (above) this.follow.shift(this.log.scrollHeight - height);
    this.#trim(above);
    this.follow.keep();
    this.#offer();
    this.#seen();
  }

  /** Rows too many go at the other end, which is out of sight. */
  #trim(above) {
    if (this.rows.children.length <= MOST + SLACK) return;
    const shifts = !above && !this.follow.pinned, height = shifts ? this.log.scrollHeight : 0;
    while (this.rows.children.length > MOST) (above ? this.rows.lastElementChild : this.rows.firstElementChild).remove();
    if (shifts) this.follow.shift(this.log.scrollHeight - height);
  }

  /** The reader has moved, or the end came into sight again. */
  async #moved() {
    this.#offer();
    this.#seen();
    if (this.#fetching) return;
    const up = this.log.scrollTop < NEAR && this.first > 1 && !this.follow.pinned;
    const down = this.follow.fromEnd < NEAR && this.last < this.newest;
    if (!up && !down) return;
    this.#fetching = true;
    const page = await this.#more(up ? { before: this.first } : { since: this.last }).catch(() => null);
    this.#fetching = false;
    if (page) this.#add(page, up);
    if (this.#again) this.catchUp();  // something was said meanwhile
  }

  #offer() {
    this.jump.hidden = this.#atEnd || (this.last >= this.newest && this.follow.fromEnd < 40);
    if (this.#atEnd || !this.known) this.known = this.newest;
    this.jump.textContent = this.newest > this.known ? "New messages ↓" : "To the newest ↓";
  }

  /** What stands in sight of somebody is not new any more. */
  #seen() {
    if (this.workspace && this.#atEnd && !document.hidden) see(this.workspace, this.newest);
  }

  /** Messages of one sender, said soon after each other, stand together; a new day is marked. */
  #join(rows) {
    for (const row of rows) {
      const before = row.previousElementSibling;
      const same = before && before.dataset.who === row.dataset.who && before.className.split(" ")[1] === row.className.split(" ")[1];
      row.classList.toggle("follows", Boolean(same) && row.dataset.at - before.dataset.at < TOGETHER);
      const day = (each) => new Date(each.dataset.at / 1000).toDateString();
      if (!before || day(before) !== day(row)) row.dataset.day = DAY.format(row.dataset.at / 1000);
      else delete row.dataset.day;
    }
  }

  // --- what was just sent: shown at once, until the daemon shows it. It is known by its key, so never stands there twice

  #sending(text, key) {
    if (!this.#stored.has(key)) {
      const row = nodes('<li class="msg message sending"><span class="face you" aria-hidden="true">Y</span><div class="said"><p class="head"><span class="who">you</span><span class="note">is being sent</span></p><div class="prose"><p></p></div></div></li>').firstElementChild;
      row.querySelector("p:last-child").textContent = text.length > 2000 ? `${text.slice(0, 2000)} …` : text;
      this.log.querySelector(".begin")?.remove();
      this.#sent.set(key, row);
      this.pending.append(row);
    }
    this.toNewest();
  }

  /** The next look brings it. */
  #arrived(key) {
    this.#sent.get(key)?.querySelector(".note")?.remove();
    this.catchUp();
  }

  /** It is in the box again, unless we hear that only the answer was lost. */
  #failed(key) {
    if (!this.#sent.has(key)) return;
    this.#sent.get(key)?.remove();
    this.#sent.set(key, null);
  }

  /** What was sent and is now shown by the daemon, as a message or as one that waits for its turn. */
  #came(stored, waiting) {
    for (const key of stored) {
      if (this.#sent.get(key) === null) this.#stored.add(key);
      this.#sent.get(key)?.remove();
      this.#sent.delete(key);
    }
    if (this.agent) this.pending.replaceChildren(...waiting, ...[...this.#sent.values()].filter(Boolean));
  }

  // --- at work

  #row(name) { return this.working.querySelector(`[data-key="${CSS.escape(`at-work-${name}`)}"]`); }

  /** The panel of those at work brings this row too, in a moment. */
  #work({ run, name }) {
    let row = this.#row(name);
    if (!row) {
      row = nodes('<li class="running"><span class="face" aria-hidden="true"></span><div class="said"><p class="head"><span class="who"></span><span class="note">is at work</span><span class="doing" data-lasting></span></p><div class="writing" data-lasting></div></div></li>').firstElementChild;
      row.dataset.key = `at-work-${name}`;
      row.querySelector(".face").textContent = name[0].toUpperCase();
      row.querySelector(".who").textContent = name;
      this.working.append(row);
    }
    row.querySelector(".writing").dataset.run = run;
    return row;
  }

  #doing(event, text) { this.#work(event).querySelector(".doing").textContent = text; }

  #write(event) {
    const row = this.#work(event), writing = row.querySelector(".writing");
    row.querySelector(".doing").textContent = "writes";
    writing.textContent = (writing.textContent + event.text).slice(-LONGEST);
  }

  /** Its message is there: what was being written is not shown twice. */
  #said(run) {
    const writing = this.working.querySelector(`.writing[data-run="${CSS.escape(run)}"]`);
    if (writing) writing.textContent = "";
  }

  #end({ run, name }) {
    this.catchUp().then(() => {
      const row = this.#row(name);
      if (row?.querySelector(".writing").dataset.run === run) row.remove();
    });
  }
}
