// What a button with data-download names, as a file: asked for with the token of this page, so that no link needs one.

import { Failure, open } from "./api.js";

export function downloads(tell) {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-download]");
    if (!button || button.disabled) return;
    button.disabled = true;
    try {
      const response = await open("GET", button.dataset.download);
      if (!response.ok) throw new Failure(response.status, (await response.json().catch(() => ({}))).error);
      save(await pretty(response, button.dataset.field), button.dataset.name);
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      tell(error.hint ? `${error.message} — ${error.hint}` : error.message);
    } finally {
      button.disabled = false;
    }
  });
}

/** JSON is written so that people can read it; where one of its fields is the file, that is taken. */
async function pretty(response, field) {
  const text = await response.text();
  if (field) return JSON.parse(text)[field];
  if (!response.headers.get("Content-Type")?.includes("json")) return text;
  return `${JSON.stringify(JSON.parse(text), null, 2)}\n`;
}

function save(text, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/octet-stream" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
