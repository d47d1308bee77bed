// What changed between two texts, line by line, with a little of what stands around it.

const AROUND = 2, LONGEST = 600;

export function difference(before, after) {
  if (before === after) return [];
  const old = before.split("\n"), now = after.split("\n");
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start++;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end++;
  const gone = old.slice(start, old.length - end), come = now.slice(start, now.length - end);
  const lines = gone.length * come.length > LONGEST * LONGEST
    ? [...gone.map((line) => `-${line}`), ...come.map((line) => `+${line}`)]
    : changed(gone, come);
  const head = old.slice(Math.max(0, start - AROUND), start), tail = old.slice(old.length - end, old.length - end + AROUND);
  return [...head.map((line) => ` ${line}`), ...lines, ...tail.map((line) => ` ${line}`)];
}

/** By the longest sequence of lines that both have. */
function changed(gone, come) {
  const table = Array.from({ length: gone.length + 1 }, () => new Uint32Array(come.length + 1));
  for (let i = gone.length - 1; i >= 0; i--)
    for (let j = come.length - 1; j >= 0; j--)
      table[i][j] = gone[i] === come[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const lines = [];
  for (let i = 0, j = 0; i < gone.length || j < come.length;) {
    if (i < gone.length && j < come.length && gone[i] === come[j]) { lines.push(` ${gone[i]}`); i++; j++; }
    else if (j >= come.length || (i < gone.length && table[i + 1][j] >= table[i][j + 1])) lines.push(`-${gone[i++]}`);
    else lines.push(`+${come[j++]}`);
  }
  return lines;
}
