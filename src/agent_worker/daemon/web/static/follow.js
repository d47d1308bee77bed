// Keeps the end of a scrolled element in sight while it grows, until its reader moves away by hand.
// Only a wheel, a finger, a key or the scroll bar can leave the end: what we scroll ourselves never does.

const CLOSE = 40;        // pixels from the end that still count as the end
const BY_HAND = 1500;    // milliseconds after a movement of the hand in which the element may go on scrolling

export class Follow {
  pinned = true;
  #top = 0;
  #touched = -Infinity;

  constructor(element, moved) {
    this.element = element;
    this.moved = moved;
    for (const kind of ["wheel", "touchmove", "keydown", "pointerdown"]) {
      element.addEventListener(kind, () => this.#hand(), { passive: true });
    }
    addEventListener("keydown", (event) => { if (!event.target.matches?.("textarea, input")) this.#hand(); });
    element.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    element.addEventListener("toggle", () => this.#unfolded(), true);
    element.addEventListener("click", (event) => { if (event.target.closest("button.more")) this.#unfolded(); });
    const watch = new ResizeObserver(() => this.keep());
    for (const each of [element, ...element.children]) watch.observe(each);
    this.pin();
  }

  get fromEnd() { return this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight; }

  /** Show the end, and stay there. */
  pin() {
    this.pinned = true;
    this.keep();
  }

  keep() {
    if (!this.pinned) return;
    this.element.scrollTop = this.element.scrollHeight;
    this.#top = this.element.scrollTop;
  }

  /** Something of this height came or went above: what is read stays where it is. */
  shift(pixels) {
    this.element.scrollTop += pixels;
    this.#top = this.element.scrollTop;
  }

  #hand() { this.#touched = performance.now(); }

  #scrolled() {
    const top = this.element.scrollTop, byHand = performance.now() - this.#touched < BY_HAND;
    if (this.fromEnd < CLOSE) this.pinned = true;
    else if (byHand && top < this.#top) {
      this.pinned = false;
      this.#hand();  // it may roll on
    }
    this.#top = top;
    this.moved();
  }

  /** Whoever opens a long text wants to read its beginning. */
  #unfolded() {
    if (this.fromEnd >= CLOSE) this.pinned = false;
    this.moved();
  }
}
