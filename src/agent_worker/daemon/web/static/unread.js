// What of each workspace this browser has shown: the number of the last message that was in sight. It is no secret.

const key = (workspace) => `seen-${workspace}`;
const seen = (workspace) => Number(localStorage.getItem(key(workspace)) ?? 0);
let tell = () => {};

export const whenSeen = (redraw) => { tell = redraw; };

export function see(workspace, seq) {
  if (seq <= seen(workspace)) return;
  localStorage.setItem(key(workspace), seq);
  tell();
}

/** The first row of a channel that was said since somebody last looked; none if all are new, or all were seen. */
export function firstUnread(workspace, rows) {
  const known = workspace ? seen(workspace) : 0;
  if (!known) return null;
  return [...rows.children].find((row) => Number(row.dataset.seq) > known && row.dataset.who !== "user") ?? null;
}

/** A workspace in the list says how many messages nobody has seen here. */
export function mark(side) {
  for (const entry of side.querySelectorAll("li[data-workspace]")) {
    const fresh = Math.max(0, Number(entry.dataset.newest) - seen(entry.dataset.workspace));
    const badge = entry.querySelector(".fresh"), told = `${fresh} new`;
    if (badge.getAttribute("aria-label") === told) continue;
    badge.hidden = !fresh;
    badge.textContent = fresh > 99 ? "99+" : fresh;
    badge.setAttribute("aria-label", told);
  }
}

export function heard(side, event) {
  if (event.event !== "message") return;
  for (const entry of side.querySelectorAll(`li[data-workspace="${CSS.escape(event.workspace)}"]`)) {
    entry.dataset.newest = Math.max(Number(entry.dataset.newest), event.seq);
  }
  mark(side);
}
