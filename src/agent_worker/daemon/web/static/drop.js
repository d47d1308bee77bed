// Files that are dropped on a list of documents, or chosen there, become documents. What cannot be taken is said, and why.

import { Failure, request } from "./api.js";

export function drops(main) {
  const zone = () => main.querySelector("[data-drop]");
  main.addEventListener("dragover", (event) => {
    if (!zone() || ![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    zone().classList.add("over");
  });
  main.addEventListener("dragleave", (event) => { if (!main.contains(event.relatedTarget)) zone()?.classList.remove("over"); });
  main.addEventListener("drop", (event) => {
    if (!zone()) return;
    event.preventDefault();
    zone().classList.remove("over");
    take(zone(), [...event.dataTransfer.files]);
  });
  main.addEventListener("change", (event) => {
    if (!event.target.matches("[data-drop] input[type=file]")) return;
    take(zone(), [...event.target.files]);
    event.target.value = "";
  });
}

async function take(zone, files) {
  const list = zone.querySelector(".taken");
  list.replaceChildren();
  for (const file of files) {
    const entry = document.createElement("li");
    entry.textContent = `${file.name} is being added …`;
    list.append(entry);
    const problem = await added(zone, file);
    entry.className = problem ? "bad" : "";
    entry.textContent = problem ? `${file.name} was not added: ${problem}` : `${file.name} was added.`;
  }
}

/** Why not; empty when it was. */
async function added(zone, file) {
  const most = Number(zone.dataset.most);
  if (file.size > most) return `it is larger than the ${Math.round(most / 1024 / 1024)} MiB that a document may have.`;
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    return "it is not a text (UTF-8), or it is a folder. Documents hold text.";
  }
  if (!text) return "it is empty.";
  const { drop: at, project } = zone.dataset;
  try {
    await request("PUT", `/documents/${encodeURIComponent(file.name)}`, { at, text, ...(project && { project }) });
    return "";
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    if (error.status === 409) return "a document of that name is there already: open it to change it.";
    return `${error.message}.`;
  }
}
