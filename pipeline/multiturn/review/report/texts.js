"use strict";
// Texts of suites become text nodes, and nothing else: no markup is ever made of them.

const byId = (id) => document.getElementById(id);
const strings = [];  // as lines of JSON, until they are read
const texts = [];  // of cases, likewise
let data;
let unseen;

/** Read the lines of the page: its data, then strings, and the texts of cases. */
async function load() {
  const packed = atob(byId("data").textContent);
  const deflated = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) deflated[at] = packed.charCodeAt(at);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const quote = '"'.charCodeAt(0);
  for (let at = 0, end; (end = bytes.indexOf(10, at)) >= 0; at = end + 1) {
    (bytes[at] === quote ? strings : texts).push(bytes.subarray(at, end));
  }
  data = parse(texts.shift());
  unseen = new RegExp(`(${data.unseen})`, "u");
  let shown = 0;
  data.cases.forEach((entry) => { if (entry.shown) entry.texts = shown++; });
}

const decoder = new TextDecoder();
const parse = (line) => JSON.parse(decoder.decode(line));
const read = [];

function string(number) {
  read[number] ??= parse(strings[number]);
  return read[number];
}

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

/** Split a text at what would not be seen, and show that by its code. */
function visible(text) {
  // It can smuggle text into a prompt, or turn its reading order around.
  return text.split(unseen).map((part, at) => {
    if (at % 2 === 0) return part;
    const code = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
    return make("span", { class: "sign" }, `U+${code}`);
  });
}

/* ---- texts, in spans that know where they come from ---- */

const SIDES = ["then", "now"];

/** Return the sides of a case that there are; what has changed between two is marked. */
function sidesOf(entry) {
  const raw = parse(texts[entry.texts]);
  const sides = {};
  for (const side of SIDES.filter((name) => raw[name])) {
    const { roles, lacksChat, texts: numbers, payloads } = raw[side];
    const spans = numbers.map((list) => {
      const found = [];
      for (let at = 0; at < list.length; at += 3) {
        const [text, origin, path] = list.slice(at, at + 3).map(string);
        found.push({ text, origin, path, changed: false });
      }
      return found;
    });
    const chat = roles.map((role, at) => ({ role, spans: spans[at + 1] }));
    sides[side] = { chat, lacksChat, question: spans[0], payloads, spans };
  }
  return sides;
}

/** Yield each text of a payload's body, in its order, with the role of its message. */
function* spoken(body, spans, role = "") {
  if (body?.$) yield { role, spans: body.$.flatMap((piece) => shownPiece(piece, spans, body.$)) };
  else if (Array.isArray(body)) for (const item of body) yield* spoken(item, spans, role);
  else if (body && typeof body === "object") {
    for (const [key, item] of Object.entries(body)) if (key !== "role") yield* spoken(item, spans, body.role || role);
  }
}

/** Return the spans of a piece: of a message, or of what the provider has added to messages. */
function shownPiece(piece, spans, pieces) {
  if (piece >= 0) return spans[piece];
  const origin = pieces.some((other) => other >= 0) ? "added for this provider" : "";
  return [{ text: string(-1 - piece), origin, path: "", changed: false }];
}

function showSpan(span, side, content = visible(span.text)) {
  const name = !span.changed ? "span" : side === "then" ? "del" : "ins";
  if (!span.origin) return make(name, {}, content);
  const hidden = span.text.trim() ? { tabindex: "0" } : {};
  return make(name, { class: "span", "data-origin": span.origin, ...hidden }, content);
}

/** Return what has happened to each file that has changed in one of two messages. */
function changedFiles(pair) {
  const [then, now] = pair.map((turn) => new Set(turn?.spans.map((span) => span.path)));
  const changed = pair.flatMap((turn) => turn?.spans || []).filter((span) => span.changed);
  return new Map(changed.map(({ path }) => [path, !then.has(path) ? "new" : !now.has(path) ? "removed" : "changed"]));
}

/** Say how many lines of a file there are, without what a stage puts above it. */
function linesOf(path, spans) {
  const text = textOf(spans.filter((span) => span.origin.startsWith(path)));
  const lines = text ? text.split("\n").length : 0;
  return `${lines} ${lines === 1 ? "line" : "lines"}`;
}

/** Show spans; in a system message, those of one file are folded, unless they have changed. */
function showSpans(spans, side, folded, changes = new Map()) {
  const groups = [];
  for (const span of spans) {
    const last = groups.at(-1);
    if (folded && span.path && last?.path === span.path) last.spans.push(span);
    else groups.push({ path: folded ? span.path : "", spans: [span] });
  }
  return groups.flatMap(({ path, spans: group }, at) => {
    const shown = group.map((span) => showSpan(span, side));
    if (path) {
      const change = changes.get(path);
      const size = make("small", {}, ` ${linesOf(path, group)}${change ? `, ${change}` : ""}`);
      const title = make("summary", {}, make("span", {}, visible(path)), size);
      return make("details", { open: change ? "" : null }, title, make("div", {}, shown));
    }
    // The fold makes the blank lines around it.
    const beside = groups[at - 1]?.path || groups[at + 1]?.path;
    return beside && group.every((span) => !span.text.trim()) ? [] : shown;
  });
}

/* ---- the views of a case ---- */

const box = (content) => make("div", { class: "text" }, content);

const showTurn = ({ role, spans }, side, changes) =>
  make("li", { class: `turn ${role}` }, make("h3", {}, role), box(showSpans(spans, side, role === "system", changes)));

const NO_CHAT = "The pipeline gives no chat prompt; these messages are sent in its place.";
const absent = (what) => make("div", { class: "absent" }, what);
const heads = () => [`at ${data.against}`, "now"];
const columns = (...content) =>
  make("div", { class: "columns" }, heads().map((head) => make("h3", { class: "head" }, head)), content);

/** Show the one side that there is, or both beside each other, with what show gives for each. */
function beside(sides, show) {
  const [only, other] = SIDES.filter((side) => sides[side]);
  if (!other) return show(only);
  return columns(SIDES.map((side, at) => make("div", { "data-side": heads()[at] }, show(side))));
}

function showChat(sides) {
  const { then, now } = sides;
  if (!then || !now) {
    const { chat, lacksChat } = then || now;
    return [lacksChat ? absent(NO_CHAT) : "", make("ol", { class: "turns" }, chat.map((turn) => showTurn(turn, "")))];
  }
  const notes = [then, now].map(({ lacksChat }) => make("div", {}, lacksChat ? absent(NO_CHAT) : ""));
  return columns(then.lacksChat || now.lacksChat ? notes : [], rowsOf(then.chat, now.chat).map(({ pair, same }) => {
    if (same) return make("ol", { class: "both" }, showTurn(pair[1], ""));
    const changes = changedFiles(pair);
    return pair.map((turn, at) => {
      const shown = turn ? showTurn(turn, SIDES[at], changes) : make("li", {}, absent("no such message"));
      return make("ol", { "data-side": heads()[at] }, shown);
    });
  }));
}

function showQuestion({ then, now }) {
  const [old, fresh] = then && now ? mark(then.question, now.question) : [then?.question, now?.question];
  const shown = { then: old, now: fresh };
  return beside({ then, now }, (side) => make("div", { class: "turn" }, box(showSpans(shown[side], side, false))));
}

/** Show JSON, indented; a line break in a text is shown as one, after its escape. */
function showJson(value, side, next, indent = "") {
  const inner = `${indent}  `;
  if (typeof value === "string") return visible(JSON.stringify(value));
  if (value === null || typeof value !== "object") return [String(value)];
  if (value.$) {
    const shown = next().map((span) => {
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
    ...showJson(item, side, next, inner),
  ]);
  return items.length ? [open, ...items, `\n${indent}${close}`] : [open + close];
}

function showPayload(sides, number) {
  const { then, now } = sides;
  const [old, fresh] = [then, now].map((side) => (side ? [...spoken(side.payloads[number][1], side.spans)] : []));
  const rows = then && now ? rowsOf(old, fresh).map(({ pair }) => pair) : [];
  const shown = then && now ? [0, 1].map((at) => rows.map((pair) => pair[at]).filter(Boolean)) : [old, fresh];
  return beside(sides, (side) => {
    const [notes, body] = sides[side].payloads[number];
    const list = notes.length ? make("ul", { class: "notes" }, notes.map((note) => make("li", {}, visible(note)))) : null;
    const left = [...shown[SIDES.indexOf(side)]];
    const next = () => left.shift().spans;
    const text = body === null ? null : body.$ ? showSpans(next(), side, false) : showJson(body, side, next);
    return make("div", {}, list, text && make("div", { class: "turn" }, box(text)));
  });
}
