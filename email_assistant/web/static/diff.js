// What an edit made of a text, word by word: the longest common subsequence of its words.

const WORD = /\s+|[\p{L}\p{N}_.+-]+@[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;
const MOST_CELLS = 2_000_000;

function lengths(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}

function steps(a, b) {
  const table = lengths(a, b);
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) found.push(["same", a[i++], j++]);
    else if (j === b.length || (i < a.length && table[i + 1][j] >= table[i][j + 1])) found.push(["gone", a[i++]]);
    else found.push(["new", b[j++]]);
  }
  return found;
}

/** Pairs of kind ("same", "gone", "new") and text that lead from one text to the other. */
export function compare(before, after) {
  const [a, b] = [before.match(WORD) ?? [], after.match(WORD) ?? []];
  const all = a.length * b.length > MOST_CELLS ? [["gone", before], ["new", after]] : steps(a, b);
  const pieces = [];
  for (const [kind, text] of all) {
    if (pieces.at(-1)?.[0] === kind) pieces.at(-1)[1] += text;
    else pieces.push([kind, text]);
  }
  return pieces;
}
