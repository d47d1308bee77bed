// Server-rendered HTML into the document: the only place that makes nodes of text, and the only Trusted Types policy.
// What is there already is changed as little as possible, so that focus, open folds and what was typed stay.

const policy = globalThis.trustedTypes?.createPolicy("agent-worker", { createHTML: (html) => html }) ?? { createHTML: (html) => html };

/** Nodes of what a view of our own daemon said. */
export function nodes(html) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(html);
  for (const time of template.content.querySelectorAll("time")) localise(time);
  return template.content;
}

export function fill(element, html) {
  element.replaceChildren(nodes(html));
}

/** Make one element like another. */
export function become(old, fresh) {
  if (old.isEqualNode(fresh) || old.dataset.lasting !== undefined || (old.tagName === "FORM" && begun(old))) return;
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !lasting(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  children(old, fresh);
}

// A form that somebody has begun to fill in stays whole: its hidden fields say what it was begun from.
const begun = (form) => [...form.querySelectorAll("textarea, input:not([type=hidden])")].some((field) =>
  field.type === "checkbox" ? field.checked !== field.defaultChecked : field.value !== field.defaultValue);

const lasting = (element, name) => name === "open" && element.tagName === "DETAILS";

function children(old, fresh) {
  const keyed = new Map([...old.children].filter((e) => e.dataset.key).map((e) => [e.dataset.key, e]));
  let place = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const known = wanted.dataset?.key && keyed.get(wanted.dataset.key);
    if (known && known !== place) old.insertBefore(known, place);
    const here = known || place;
    if (here && alike(here, wanted)) {
      place = here.nextSibling;
      if (here.nodeType === Node.ELEMENT_NODE) loaded(here) ? become(here.firstElementChild, wanted.firstElementChild) : become(here, wanted);
      else if (here.data !== wanted.data) here.data = wanted.data;
    } else {
      old.insertBefore(wanted, place);
    }
  }
  while (place) { const next = place.nextSibling; place.remove(); place = next; }
}

const alike = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

// A fold that has fetched its content keeps it.
const loaded = (element) => element.tagName === "DETAILS" && element.dataset.loaded !== undefined;

// Made once: to make one takes longer than to use it a hundred times.
const clock = (more) => new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hour12: false, ...more });
const MINUTE = clock({}), SECOND = clock({ second: "2-digit" });
const DAY = new Intl.DateTimeFormat([], { day: "2-digit", month: "short" });
const WHOLE = new Intl.DateTimeFormat([], { dateStyle: "short", timeStyle: "medium" });

function localise(time) {
  const moment = new Date(time.dateTime);
  const hour = (time.dataset.precise !== undefined ? SECOND : MINUTE).format(moment);
  time.textContent = time.dataset.day !== undefined && moment.toDateString() !== new Date().toDateString() ? `${DAY.format(moment)} ${hour}` : hour;
  time.title = WHOLE.format(moment);
}
