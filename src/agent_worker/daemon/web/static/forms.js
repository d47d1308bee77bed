// Forms: each names the operation it does (data-do), where to go then (data-then), and where its answer is told (data-tells).

import { Failure, request } from "./api.js";
import { nodes } from "./place.js";

const last = new WeakMap();  // form → its last request: what is sent one after the other arrives in that order

/** `then` is called with a form whose operation was done. */
export function forms(then) {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.do) return;
    event.preventDefault();
    if (form.hasAttribute("data-busy") && !form.matches(".compose")) return;  // pressed twice
    const sent = { given: values(form, event.submitter) };
    form.querySelector(".told").textContent = "";
    form.toggleAttribute("data-busy", true);
    form.dispatchEvent(new CustomEvent("sending", { detail: sent }));
    const turn = (last.get(form) ?? Promise.resolve()).then(() => submit(form, sent, then)).finally(() => {
      if (last.get(form) === turn) form.removeAttribute("data-busy");
    });
    last.set(form, turn);
  });
}

/** `sent` is known to whoever heard of it as `sending`: the same comes with `done` or `failed`. */
async function submit(form, sent, then) {
  const [method, pattern] = form.dataset.do.split(" ");
  const path = pattern.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(take(sent.given, name)).replaceAll("%2F", "/"));
  try {
    sent.answer = await request(method, path, sent.given);
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    sent.error = error;
    if (error.code === "untrusted" && form.dataset.trust) await ask(form);
    form.querySelector(".told").textContent = error.hint ? `${error.message} — ${error.hint}` : error.message;
    form.dispatchEvent(new CustomEvent("failed", { detail: sent }));
    return;
  }
  if (form.dataset.tells) tell(form.dataset.tells, sent.answer);
  if (!form.matches(".compose")) form.reset();  // there, the next message may have been begun
  if (form.dataset.then) go(form.dataset.then.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(sent.answer[name] ?? sent.given[name]).replaceAll("%2F", "/")));
  form.dispatchEvent(new CustomEvent("done", { detail: sent }));
  then(form);
}

/** What stands in the address is not said twice. */
function take(given, name) {
  const { [name]: value = "" } = given;
  delete given[name];
  return value;
}

/** To a view; to the one that is shown, it is made anew. */
function go(place) {
  if (place === location.hash) dispatchEvent(new HashChangeEvent("hashchange"));
  else location.hash = place;
}

/** What was refused for want of an approval is asked about in place, as in a terminal; after a yes it is sent again. */
async function ask(form) {
  const { html } = await request("GET", `/page/approval?${form.dataset.trust}`);
  const asked = nodes(html).querySelector("form.consent");
  if (!asked) return;
  form.parentElement.querySelectorAll(":scope > form.consent").forEach((each) => each.remove());
  form.before(asked);
  asked.addEventListener("done", () => { asked.remove(); form.requestSubmit(); });
  asked.querySelector("button").focus();
}

document.addEventListener("click", (event) => {
  const deny = event.target.closest("button[data-deny]");
  if (!deny) return;
  const asked = deny.closest("form"), alone = !asked.nextElementSibling?.matches("form");
  asked.remove();
  if (alone) history.back();
});

/** What an operation told, as sentences, or as a view: its form may be gone by then. */
function tell(id, answer) {
  if (answer.html !== undefined) return document.getElementById(id).replaceChildren(nodes(answer.html));
  const told = [answer].flat().map((each) => `${each.told}.`).join(" ");
  document.getElementById(id).textContent = `${told[0].toUpperCase()}${told.slice(1)}`;
}

/** Fields as an operation takes them: `params.x` goes into params, a checkbox is true or left out. The button that was
    pressed adds what it says (data-with). */
function values(form, submitter) {
  const given = {};
  for (const [name, value] of new FormData(form, submitter)) {
    const field = form.elements[name];
    if (value === "" && !field?.required && field?.dataset?.empty === undefined) continue;
    const plain = field?.type === "checkbox" ? true : value;
    if (field instanceof RadioNodeList && name !== submitter?.name) continue;  // several boxes of one name, below; of buttons, the one pressed
    const [outer, inner] = name.split(".");
    if (inner) (given[outer] ??= {})[inner] = String(plain);
    else given[name] = plain;
  }
  for (const list of form.querySelectorAll("[data-list]")) given[list.name] = list.value.split("\n").map((each) => each.trim()).filter(Boolean);
  for (const box of form.querySelectorAll("input[type=checkbox][data-many]")) {
    if (given[box.name] === true || !given[box.name]) given[box.name] = [];
    if (box.checked) given[box.name].push(box.value);
  }
  for (const box of form.querySelectorAll("input[type=checkbox][data-off]")) {
    const [outer, inner] = box.name.split(".");
    if (!box.checked) (given[outer] ??= {})[inner] = box.dataset.off;
  }
  return Object.assign(given, JSON.parse(submitter?.dataset.with ?? "{}"));
}
