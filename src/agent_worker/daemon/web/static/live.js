// Everything that happens, read from one stream. After a break it goes on behind the last event that was seen.

import { open, signedIn } from "./api.js";

const FIRST_WAIT = 250, LONGEST_WAIT = 5000, SILENCE = 40_000;

export class Live {
  last = "";        // number of the last stored event
  #stop = null;
  #again = null;
  #running = false;

  constructor({ heard, state }) {
    this.heard = heard;
    this.state = state;  // called with true when connected, false when not
  }

  /** Connect, and stay so. Called again after signing in, it goes on at once. */
  async run() {
    this.#again?.();
    if (this.#running) return;
    this.#running = true;
    let wait = FIRST_WAIT;
    while (signedIn()) {
      try {
        await this.#read(() => { wait = FIRST_WAIT; });
      } catch { /* told by the state, tried again below */ }
      this.state(false);
      await new Promise((done) => { this.#again = done; setTimeout(done, wait); });
      wait = Math.min(wait * 2, LONGEST_WAIT);
    }
    this.#running = false;
  }

  async #read(connected) {
    this.#stop = new AbortController();
    let silent = 0;
    const patience = setInterval(() => { if (++silent * 1000 > SILENCE) this.#stop?.abort(); }, 1000);
    try {
      const headers = this.last ? { "Last-Event-ID": this.last } : {};
      const response = await open("GET", "/events", { headers, signal: this.#stop.signal });
      if (!response.ok) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = "", first = true; ;) {
        const { value, done } = await reader.read();
        if (done) return;
        if (first) { first = false; connected(); this.state(true); }
        silent = 0;
        const frames = (rest + value).split("\n\n");
        rest = frames.pop();
        for (const frame of frames) this.#take(frame);
      }
    } finally {
      clearInterval(patience);
      this.#stop = null;
    }
  }

  #take(frame) {
    const lines = Object.fromEntries(frame.split("\n").map((line) => [line.slice(0, line.indexOf(": ")), line.slice(line.indexOf(": ") + 2)]));
    if (!lines.event) return;  // a ping
    if (lines.id) this.last = lines.id;
    this.heard(JSON.parse(lines.data));
  }
}
