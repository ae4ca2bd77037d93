"use strict";
// Texts of suites become text nodes, and nothing else: no markup is ever made of them.

const byId = (id) => document.getElementById(id);
const lines = [];  // of JSON, until they are read: strings, and the texts of cases
let data;
let unseen;

/** Read the lines of the page; the last one is all that is no string and no text of a case. */
async function load() {
  const packed = atob(byId("data").textContent);
  const deflated = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) deflated[at] = packed.charCodeAt(at);
  const stream = new Blob([deflated]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  for (let at = 0, end; (end = bytes.indexOf(10, at)) >= 0; at = end + 1) lines.push(bytes.subarray(at, end));
  data = parse(lines.pop());
  unseen = new RegExp(`(${JSON.parse(data.unseen)})`, "u");
  completeAnswers();
}

const decoder = new TextDecoder();
const parse = (line) => JSON.parse(decoder.decode(line));
const read = [];

function string(number) {
  read[number] ??= parse(lines[number]);
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

const ROLES = ["system", "user", "assistant", "tool"];
const SIDES = ["then", "now"];
const NOT_SENT = [["a captured request is sent to no target"], null];

/** Return the sides of a case that there are; what has changed between two is marked. */
function sidesOf(entry) {
  const raw = parse(lines[entry.texts]);
  const sides = {};
  for (const side of SIDES.filter((name) => raw[name])) {
    const { roles, lacksChat, texts: numbers, sent = NOT_SENT, media = [], facts = {} } = raw[side];
    const spans = numbers.map((list) => {
      const found = [];
      for (let at = 0; at < list.length; at += 3) {
        const [text, origin, path] = list.slice(at, at + 3).map(string);
        found.push({ text, origin, path, changed: false });
      }
      return found;
    });
    for (const [text, at, number] of media) spans[text][at].media = data.media[number];
    const chat = roles.map((role, at) => ({ role, spans: spans[at + 1], facts: facts[role] }));
    sides[side] = { chat, lacksChat, question: spans[0], sent, spans };
  }
  return sides;
}

/** Return the classes of a message by its title, which is a role, or a role and what it answers. */
function roleOf(title) {
  const role = ROLES.find((each) => title === each || title.startsWith(`${each},`)) || "other";
  return title.startsWith("tool,") ? `${role} result` : isAnswer({ role: title }) ? "answer" : role;
}

/** Yield each text of a body, in its order, with the role of its message. */
function* spoken(body, spans, role = "") {
  if (body?.$ !== undefined) yield { role, spans: spans[body.$] };
  else if (body && typeof body === "object") {
    for (const [key, item] of Object.entries(body)) if (key !== "role") yield* spoken(item, spans, body.role || role);
  }
}

function showSpan(span, side, content = span.media ? showMedia(span) : visible(span.text)) {
  const name = !span.changed ? "span" : side === "then" ? "del" : "ins";
  if (!span.origin) return make(name, {}, content);
  const hidden = span.text.trim() ? { tabindex: "0" } : {};
  // What is no text has a frame, so that no text can look like it.
  return make(name, { class: span.media ? "span media" : "span", "data-origin": span.origin, ...hidden }, content);
}

/** Show what is known of media, and below it the image, or why it is not shown. */
function showMedia({ text, media: { name, image, why } }) {
  const facts = text.slice(name.length).split(/\b([0-9a-f]{64})\b/);
  // The style cuts the digest; it is copied, found and compared as a whole.
  const known = facts.map((fact, at) => (at % 2 ? make("span", { class: "digest" }, fact) : fact));
  const line = [visible(name), make("span", { class: "known" }, known)];
  if (why) return [line, make("small", {}, ` ${why}`)];
  // An address would not be loaded: the policy of the page allows no other source than data.
  return image === undefined ? line : [line, make("img", { src: string(image), alt: name, loading: "lazy", decoding: "async" })];
}

/** Return whether a span is the text of its file, not what a stage puts above it. */
const isOfFile = ({ path, origin }) => path !== "" && origin.startsWith(path);

/** Say how many lines of a file there are. */
function linesOf(spans) {
  const text = textOf(spans.filter(isOfFile));
  const lines = text ? text.split("\n").length : 0;
  return `${lines} ${lines === 1 ? "line" : "lines"}`;
}
