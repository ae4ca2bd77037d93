"use strict";
// What is different between two texts: lines first, then the words in them, in bounded time.

const LINE = /[^\n]*\n|[^\n]+/g;
// Scripts that are written without spaces are compared sign by sign.
const SIGN = "[\\u0e00-\\u0e7f\\u3040-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff]";
// A word ends after 9,999 signs: one of millions is more than the stack of an expression holds.
const WORD = new RegExp(`${SIGN}|(?:(?!${SIGN})[\\p{L}\\p{N}\\p{M}_]){1,9999}|\\n|[^\\S\\n]+|\\S`, "gu");
const ALIKE = 0.3;  // less in common, and a rewritten paragraph is read as a whole
const MOST_STEPS = 5e6;  // of all comparisons of a case; afterwards, what is left differs as a whole
let steps = 0;

/** Return where two lists differ, as [from, to] in the old one and [from, to] in the new one. */
function differing(old, now) {
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  let tail = 0;
  const most = Math.min(old.length, now.length) - head;
  while (tail < most && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  const [a, b] = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)];
  const pairs = a.length && b.length ? shared(a, b) : [];
  const found = [];
  let [x, y] = [0, 0];
  for (const [i, j] of [...pairs, [a.length, b.length]]) {
    if (x < i || y < j) found.push([head + x, head + i, head + y, head + j]);
    [x, y] = [i + 1, j + 1];
  }
  return found;
}

/** Return the pairs of places at which two lists have the same item: Myers' greedy algorithm. */
function shared(a, b) {
  const most = a.length + b.length;
  const reached = new Int32Array(2 * most + 2);  // how far in a, by diagonal
  const trace = [];
  for (let edits = 0; steps < MOST_STEPS; edits++) {
    trace.push(reached.slice(most - edits, most + edits + 2));
    for (let k = -edits; k <= edits; k += 2) {
      const down = k === -edits || (k !== edits && reached[most + k - 1] < reached[most + k + 1]);
      let x = down ? reached[most + k + 1] : reached[most + k - 1] + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) { x++; steps++; }
      reached[most + k] = x;
      if (x >= a.length && x - k >= b.length) return backtracked(trace, a.length, b.length);
    }
    steps += edits;
  }
  return [];
}

function backtracked(trace, x, y) {
  const pairs = [];
  for (let edits = trace.length - 1; edits >= 0; edits--) {
    const reached = (k) => trace[edits][k + edits];
    const k = x - y;
    const down = k === -edits || (k !== edits && reached(k - 1) < reached(k + 1));
    const before = edits ? (down ? reached(k + 1) : reached(k - 1) + 1) : 0;
    while (x > before) pairs.push([--x, --y]);
    if (down) y--;
    else x--;
  }
  return pairs.reverse();
}

/** Return where two texts differ, in characters, by units of a kind. */
function differingIn(old, now, unit) {
  const tokens = [old, now].map((text) => text.match(unit) || []);
  const [first, second] = tokens.map((list) => {
    let at = 0;
    return [0, ...list.map((token) => (at += token.length))];
  });
  return differing(...tokens).map(([a, b, c, d]) => [first[a], first[b], second[c], second[d]]);
}

/** Return where the lines of two texts differ, in characters. */
function differingLines(old, now) {
  // Each line ends, so that the last one is the same where another follows it.
  return old === now ? [] : differingIn(`${old}\n`, `${now}\n`, LINE);
}

/** Return the stretches of each text that the other one lacks, as pairs of places. */
function changes(old, now, lines = differingLines(old, now)) {
  const found = [[], []];
  for (let [a, b, c, d] of lines) {
    if (b > old.length) {
      // Where only one text goes on, the line end before that is new.
      const more = a === b || c === d ? 1 : 0;
      [a, b, c, d] = [a - more, b - 1, c - more, d - 1];
    }
    const [before, after] = [old.slice(a, b), now.slice(c, d)];
    let runs = differingIn(before, after, WORD);
    const changed = runs.reduce((sum, [e, f, g, h]) => sum + f - e + h - g, 0);
    if (changed > (1 - ALIKE) * (before.length + after.length)) runs = [[0, before.length, 0, after.length]];
    for (const [e, f, g, h] of runs) {
      join(found[0], old, a + e, a + f);
      join(found[1], now, c + g, c + h);
    }
  }
  return found;
}

/** Add a stretch to others, as one where only spaces are between them. */
function join(stretches, text, start, end) {
  const last = stretches.at(-1);
  if (last && /^[ \t]*$/.test(text.slice(last[1], start))) last[1] = end;
  else if (start < end) stretches.push([start, end]);
}

const textOf = (spans) => spans.map((span) => span.text).join("");

