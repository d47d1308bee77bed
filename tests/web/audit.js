// What a person who cannot see, or not well, would stumble over: things without a name, words too faint to read.
() => {
  const found = [];
  const shown = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && e.getClientRects().length;
  const text = (e) => (e?.textContent ?? "").trim();
  const labels = (e) => [...(e.labels ?? [])].map(text).join("");
  const name = (e) => e.getAttribute("aria-label") || text(document.getElementById(e.getAttribute("aria-labelledby"))) || labels(e) || (e.matches("input, textarea") ? "" : text(e)) || e.getAttribute("title");
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), textarea, select, summary, svg[role=img], form, nav, aside, dialog[open], [role=img]"))
    if (shown(e) && !name(e)) found.push(`no name: ${e.outerHTML.slice(0, 90)}`);
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id is there twice");
  if (document.querySelectorAll("main").length !== 1 || !document.querySelector("main h1")) found.push("no heading");

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } return [255, 255, 255, 255]; };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || seen.has(e) || !shown(e) || e.closest("svg, script, .long:not(.open)")) continue;
    seen.add(e);
    const style = getComputedStyle(e), size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const [one, two] = [light(rgb(style.color)), light(behind(e))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < (large ? 3 : 4.5)) found.push(`too faint (${ratio.toFixed(2)}): ${e.className || e.tagName} "${text(e).slice(0, 30)}"`);
  }
  return found;
}
