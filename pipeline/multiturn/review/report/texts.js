"use strict";
// Texts of suites become text nodes, and nothing else: no markup is ever made of them.

const data = JSON.parse(document.getElementById("data").textContent);
// What a reader would not see, or would see in another order: it can smuggle text into a prompt.
const UNSEEN = new RegExp(`(${data.unseen})`, "u");

const byId = (id) => document.getElementById(id);
const string = (number) => data.strings[number];

/** Make an element; children are elements, texts, or nothing. */
function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null));
  return element;
}

/* ---- texts, in spans that know where they come from ---- */

function* spansOf(number) {
  const numbers = data.texts[number];
  for (let at = 0; at < numbers.length; at += 4) {
    const [text, origin, path, changed] = numbers.slice(at, at + 4);
    yield { text: string(text), origin: string(origin), path: string(path), changed: changed === 1 };
  }
}

const contentOf = (number) => [...spansOf(number)].map((span) => span.text).join("");

/** Split a text at what would not be seen, and show that by its code. */
function visible(text) {
  return text.split(UNSEEN).map((part, at) => {
    if (at % 2 === 0) return part;
    const code = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return make("span", { class: "sign" }, `U+${code}`);
  });
}

function showSpan(span, side, content = visible(span.text)) {
  const name = !span.changed ? "span" : side === "then" ? "del" : "ins";
  if (!span.origin) return make(name, {}, content);
  const hidden = span.text.trim() ? { tabindex: "0" } : {};
  return make(name, { class: "span", "data-origin": span.origin, ...hidden }, content);
}

/** Return what has happened to each file that has changed in one of two messages. */
function changedFiles(turns) {
  const spans = turns.map((turn) => (turn ? [...spansOf(turn[1])] : []));
  const [then, now] = spans.map((side) => new Set(side.map((span) => span.path)));
  const changed = spans.flat().filter((span) => span.changed).map(({ path }) => path);
  return new Map(changed.map((path) => [path, !then.has(path) ? "new" : !now.has(path) ? "removed" : "changed"]));
}

/** Say how many lines of a file there are, without what a stage puts above it. */
function linesOf(path, spans) {
  const text = spans.filter((span) => span.origin.startsWith(path)).map((span) => span.text).join("");
  const lines = text ? text.split("\n").length : 0;
  return `${lines} ${lines === 1 ? "line" : "lines"}`;
}

/** Show spans; in a system message, those of one file are folded, unless they have changed. */
function showSpans(number, side, folded, changes = new Map()) {
  const groups = [];
  for (const span of spansOf(number)) {
    const last = groups.at(-1);
    if (folded && span.path && last?.path === span.path) last.spans.push(span);
    else groups.push({ path: folded ? span.path : "", spans: [span] });
  }
  return groups.flatMap(({ path, spans }, at) => {
    const shown = spans.map((span) => showSpan(span, side));
    if (path) {
      const change = changes.get(path);
      const size = make("small", {}, ` ${linesOf(path, spans)}${change ? `, ${change}` : ""}`);
      const title = make("summary", {}, make("span", {}, visible(path)), size);
      return make("details", { open: change ? "" : null }, title, make("div", {}, shown));
    }
    // The fold makes the blank lines around it.
    const beside = groups[at - 1]?.path || groups[at + 1]?.path;
    return beside && spans.every((span) => !span.text.trim()) ? [] : shown;
  });
}

/* ---- the views of a case ---- */

const box = (content) => make("div", { class: "text" }, content);

const showTurn = ([role, spans], side, changes) =>
  make("li", { class: `turn ${role}` }, make("h3", {}, role), box(showSpans(spans, side, role === "system", changes)));

const NO_CHAT = "The pipeline gives no chat prompt; providers get the transcript.";
const absent = (what) => make("div", { class: "absent" }, what);

/** Put then and now side by side, or show the one that there is. */
function beside(entry, show) {
  const sides = ["then", "now"].filter((side) => entry[side]);
  if (sides.length === 1) return [show(sides[0])];
  const heads = [`at ${data.against}`, "now"];
  return make("div", { class: "columns" },
    heads.map((head) => make("h3", { class: "head" }, head)),
    sides.map((side, at) => make("div", { "data-side": heads[at] }, show(side))));
}

function showChat(entry) {
  const chats = [entry.now, entry.then].filter((side) => side?.chat).map((side) => side.chat);
  if (!chats.length) return absent(NO_CHAT);
  if (!entry.rows) return make("ol", { class: "turns" }, chats[0].map((turn) => showTurn(turn, "")));
  const next = { then: 0, now: 0 };
  const rows = entry.rows.map((has) => {
    const turns = ["then", "now"].map((side, at) => (has[at] ? entry[side].chat[next[side]++] : null));
    const [then, now] = turns;
    const same = then && now && then[0] === now[0] && contentOf(then[1]) === contentOf(now[1]);
    if (same) return make("ol", { class: "both" }, showTurn(now, ""));
    const changes = changedFiles(turns);
    return turns.map((turn, at) => {
      const side = ["then", "now"][at];
      const missing = entry[side].chat ? "no such message" : NO_CHAT;
      const shown = turn ? showTurn(turn, side, changes) : make("li", {}, absent(missing));
      return make("ol", { "data-side": at ? "now" : `at ${data.against}` }, shown);
    });
  });
  const heads = [`at ${data.against}`, "now"].map((head) => make("h3", { class: "head" }, head));
  return make("div", { class: "columns" }, heads, rows);
}

function showQuestion(entry) {
  return beside(entry, (side) => make("div", { class: "turn" }, box(showSpans(entry[side].question, side, false))));
}

/** Show JSON, indented; a line break in a text is shown as one, after its escape. */
function showJson(value, side, indent = "") {
  const inner = `${indent}  `;
  if (typeof value === "string") return visible(JSON.stringify(value));
  if (value === null || typeof value !== "object") return [String(value)];
  if (value.$ !== undefined) {
    const shown = [...spansOf(value.$)].map((span) => {
      const lines = span.text.split("\n").map((line) => visible(JSON.stringify(line).slice(1, -1)));
      const escape = () => make("span", { class: "escape" }, "\\n");
      return showSpan(span, side, lines.flatMap((line, at) => (at ? [escape(), ...line] : line)));
    });
    return ['"', ...shown, '"'];
  }
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const items = Object.entries(value).flatMap(([key, item], at) => [
    `${at ? "," : ""}\n${inner}`,
    ...(Array.isArray(value) ? [] : [`${JSON.stringify(key)}: `]),
    ...showJson(item, side, inner),
  ]);
  return items.length ? [open, ...items, `\n${indent}${close}`] : [open + close];
}

function showPayload(entry, number) {
  return beside(entry, (side) => {
    const { body, notes } = entry[side].payloads[number];
    const list = notes.length ? make("ul", { class: "notes" }, notes.map((note) => make("li", {}, visible(string(note))))) : null;
    const text = body === null ? null : typeof body === "string" ? visible(body) : body.$ !== undefined ? showSpans(body.$, side, false) : showJson(body, side);
    return make("div", {}, list, text && make("div", { class: "turn" }, box(text)));
  });
}

/* ---- what a search has found ---- */

/** Mark it in the panel, also where it begins in one span of a text and ends in another. */
function highlight(query) {
  if (!CSS.highlights) return;
  CSS.highlights.clear();
  const panel = byId("panel");
  if (!query || !panel) return;
  const found = new Highlight();
  const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  let nodes = [];
  let text = null;
  const finish = () => {
    for (const range of rangesOf(nodes, query.toLowerCase())) {
      range.startContainer.parentElement.closest("details")?.setAttribute("open", "");
      found.add(range);
    }
  };
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const next = parent.closest("summary, details > div, .text") || parent;
    if (next !== text) {
      finish();
      nodes = [];
      text = next;
    }
    nodes.push(walker.currentNode);
  }
  finish();
  CSS.highlights.set("found", found);
}

/** Return where a query is in the joined text of some nodes. */
function* rangesOf(nodes, query) {
  // Where a small letter is longer than its capital, the places would be other ones.
  const texts = nodes.map(({ data: text }) => (text.toLowerCase().length === text.length ? text.toLowerCase() : text));
  const joined = texts.join("");
  let node = 0;
  let start = 0;
  for (let at = joined.indexOf(query); at >= 0; at = joined.indexOf(query, at + query.length)) {
    const range = new Range();
    const end = at + query.length;
    while (start + texts[node].length <= at) start += texts[node++].length;
    range.setStart(nodes[node], at - start);
    while (start + texts[node].length < end) start += texts[node++].length;
    range.setEnd(nodes[node], end - start);
    yield range;
  }
}
