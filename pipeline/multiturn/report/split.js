"use strict";
// Two sides of a text beside each other, row by row; what is the same is folded to three lines
// around a change.

const CONTEXT = 3;

/** Return a function that gives the spans of one stretch of a text after the other. */
function cutter(spans) {
  let [next, at] = [0, 0];  // the span that is not yet used up, and where it begins
  return (from, to) => {
    const found = [];
    for (; next < spans.length; at += spans[next++].text.length) {
      const text = spans[next].text.slice(Math.max(0, from - at), Math.max(0, to - at));
      if (text) found.push({ ...spans[next], text });
      if (at + spans[next].text.length > to) break;
    }
    return found;
  };
}

/** Return the spans of two texts, cut so that each has changed as a whole or not at all. */
function mark(then, now, lines) {
  const found = changes(textOf(then), textOf(now), lines);
  return [then, now].map((spans, side) => {
    const edges = found[side].flat();
    const cut = [];
    let at = 0;
    let next = 0;
    for (const span of spans) {
      const end = at + span.text.length;
      if (span.media) {  // as a whole
        cut.push({ ...span, changed: found[side].some(([from, to]) => from < end && to > at) });
        at = end;
        continue;
      }
      for (let start = at; start < end;) {
        while (next < edges.length && edges[next] <= start) next++;
        const stop = Math.min(end, edges[next] ?? end);
        cut.push({ ...span, text: span.text.slice(start - at, stop - at), changed: next % 2 === 1 });
        start = stop;
      }
      at = end;
    }
    return cut;
  });
}

/**
 * Put the items of two sides beside each other, with null where there is none; those that differ
 * are beside each other, too, or each is alone.
 */
function pairsOf(then, now, keyOf, areBeside) {
  const keys = [then, now].map((items) => items.map(keyOf));
  const pairs = [];
  let [at, to] = [0, 0];
  for (const [a, b, c, d] of [...differing(...keys), [then.length, then.length, now.length, now.length]]) {
    while (at < a) pairs.push({ pair: [then[at++], now[to++]], same: true });
    while (at < b || to < d) {
      const old = at < b ? then[at++] : null;
      const fresh = to < d && (areBeside || !old) ? now[to++] : null;
      pairs.push({ pair: [old, fresh], same: false });
    }
  }
  return pairs;
}

/** Put the messages of two sides beside each other, and below them the answers. */
function rowsOf(then, now) {
  const prompts = [then, now].map((turns) => turns.filter((turn) => !isAnswer(turn)));
  return [...pairsOf(...prompts, ({ role, spans }) => `${role}\0${textOf(spans)}`, true), ...answerRows(then, now)];
}

/** Return where the lines of a text begin, and where it ends. */
function lineStarts(text) {
  const found = [0];
  for (let at = text.indexOf("\n") + 1; at > 0 && at < text.length; at = text.indexOf("\n", at) + 1) found.push(at);
  return [...found, text.length];
}

/**
 * Yield what is the same in two texts and what differs, in whole lines: {kind, then, now}, with
 * places in each text. Of what is the same, all but the lines around a change is of the kind "fold".
 */
function* stretchesOf(old, now, lines) {
  let [at, to] = [0, 0];
  const all = [...lines, [old.length, old.length, now.length, now.length]];
  for (const [number, [a, b, c, d]] of all.entries()) {
    const [end, stop] = [Math.min(a, old.length), Math.min(c, now.length)];
    if (at < end) yield* foldedOf(old.slice(at, end), [at, end], [to, stop], number === 0, number === lines.length);
    [at, to] = [Math.min(b, old.length), Math.min(d, now.length)];
    if (end < at || stop < to) yield { kind: "changed", then: [end, at], now: [stop, to] };
  }
}

function* foldedOf(text, [at, end], [to, stop], isFirst, isLast) {
  const starts = lineStarts(text);
  const count = starts.length - 1;
  const isAll = isFirst && isLast;
  const [head, tail] = [isFirst && !isAll ? 0 : CONTEXT, isLast && !isAll ? 0 : CONTEXT];
  const edges = count > head + tail + 1 ? [0, starts[head], starts[count - tail], text.length] : [0, 0, 0, text.length];
  for (let part = 0; part < 3; part++) {
    const [from, until] = [edges[part], edges[part + 1]];
    if (from === until) continue;
    yield {
      kind: part === 1 ? "fold" : "same",
      count: count - head - tail,
      then: [at + from, until === text.length ? end : at + until],
      now: [to + from, until === text.length ? stop : to + until],
    };
  }
}

/** Show two texts in rows; one of them may be null, and so may its changes be hidden. */
function showSplit(then, now, isHidden = () => false) {
  const [old, fresh] = [then || [], now || []];
  const isOne = !old.length || !fresh.length;  // then all of it has changed, also what is blank
  const lines = isOne ? [[0, textOf(old).length, 0, textOf(fresh).length]] : differingLines(textOf(old), textOf(fresh));
  const sides = mark(old, fresh, lines);
  const cut = sides.map(cutter);
  return [...stretchesOf(textOf(old), textOf(fresh), lines)].flatMap(({ kind, count, ...places }) => {
    const pieces = SIDES.map((side, at) => cut[at](...places[side]));
    if (kind === "changed") return pieces.flat().every((span) => !span.changed || isHidden(span)) ? [] : showRow(isOne ? "changed one" : kind, pieces);
    const row = showRow("same", pieces);
    return kind === "fold" ? [showFold(count, row), row] : row;
  });
}

function showRow(kind, pieces) {
  const cells = pieces.map((spans, at) => make("div", { class: spans.length ? "text" : "text none" }, spans.map((span) => showSpan(span, SIDES[at]))));
  // What is the same on both sides is read and reached once.
  if (kind === "same") {
    cells[0].setAttribute("aria-hidden", "true");
    for (const span of cells[0].children) span.removeAttribute("tabindex");
  }
  return make("div", { class: `row ${kind}` }, cells);
}

/** Show a text that is the same on both sides. */
function showOnce(spans) {
  const text = textOf(spans);
  const cut = cutter(spans);
  return [...stretchesOf(text, text, [])].flatMap(({ kind, count, now }) => {
    const row = make("div", { class: "text" }, cut(...now).map((span) => showSpan(span, "")));
    return kind === "fold" ? [showFold(count, row), row] : row;
  });
}

/** Fold some elements that follow; the label is no text, so that a search does not find it. */
function showFold(count, row) {
  row.setAttribute("hidden", "until-found");
  const label = `${count} unchanged ${count === 1 ? "line" : "lines"}`;
  const button = make("button", { type: "button", class: "fold", "aria-expanded": "false", "aria-label": label, "data-label": label });
  button.addEventListener("click", () => unfold(button, row.hasAttribute("hidden")));
  row.addEventListener("beforematch", () => unfold(button, true));
  return button;
}

/** Show what a button folds, or hide it. */
function unfold(button, isOpen) {
  button.setAttribute("aria-expanded", String(isOpen));
  if (isOpen) button.nextElementSibling.removeAttribute("hidden");
  else button.nextElementSibling.setAttribute("hidden", "until-found");
}

/* ---- messages ---- */

/** Return spans in groups; in a system message, those of one file are a group with its path. */
function groupsOf(spans, isSystem) {
  const groups = [];
  for (const span of spans) {
    const path = isSystem ? span.path : "";
    if (groups.length && groups.at(-1).path === path) groups.at(-1).spans.push(span);
    else groups.push({ path, spans: [span] });
  }
  // The fold of a file makes the blank lines around it.
  groups.forEach(({ path, spans: group }, at) => {
    if (path) return;
    while (groups[at + 1] && group.length && !group.at(-1).text.trim()) group.pop();
    while (at > 0 && group.length && !group[0].text.trim()) group.shift();
  });
  return groups.filter(({ spans: group }) => group.length);
}

/** Show one message of two sides; with a filter of changes, only what has changed and passes. */
function showPair(pair, isHidden = null) {
  const [then, now] = pair;
  const groups = pair.map((turn) => groupsOf(turn?.spans || [], turn?.role === "system"));
  const shown = pairsOf(...groups, ({ path }) => path, false).flatMap(({ pair: [old, fresh] }) => showGroup(old, fresh, isHidden));
  const roles = [then?.role, now?.role];
  const [was, is] = roles;
  const isMoved = was && is && was !== is;
  if (isHidden && !isMoved && !shown.some((element) => element.matches(".row.changed, :has(.row.changed)"))) return [];
  const title = isMoved ? moved(was, is)
    : [visible(is || was), then && now ? null : make("small", {}, then ? " removed" : " new")];
  return [make("li", { class: `turn ${roleOf(is || was)}` }, make("h3", { class: isMoved ? "changed" : null }, title), shown, showKnown(pair))];
}

/** Show two roles, of a text that has another one than before. */
const moved = (was, is) => [make("del", {}, visible(was)), " → ", make("ins", {}, visible(is))];

function showGroup(old, fresh, isHidden) {
  const path = (old || fresh).path;
  const isSame = old && fresh && textOf(old.spans) === textOf(fresh.spans);
  if (isSame && isHidden) return [];
  if (!path) return showSplit(old?.spans, fresh?.spans, isHidden || undefined);
  if (isSame) return [showFile(path, fresh.spans, "", showOnce(fresh.spans))];
  const rows = showSplit(old?.spans, fresh?.spans, isHidden || undefined);
  return rows.length ? [showFile(path, (fresh || old).spans, !old ? "new" : !fresh ? "removed" : "changed", rows)] : [];
}

function showFile(path, spans, change, content) {
  const size = make("small", {}, ` ${linesOf(spans)}${change ? `, ${change}` : ""}`);
  const title = make("summary", {}, make("span", {}, visible(path)), size);
  return make("details", { open: change ? "" : null }, title, make("div", {}, content));
}
