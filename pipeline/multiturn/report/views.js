"use strict";
// The views of a case: its chat prompt, its transcript, and what the target is sent.

const box = (content) => make("div", { class: "text" }, content);

const showAll = (spans) => box(spans.map((span) => showSpan(span, "")));

/** Show a message of one side, or one that both have; in a system message, files are folded. */
function showTurn({ role, spans }, showText, ...sides) {
  const shown = groupsOf(spans, role === "system").map(({ path, spans: group }) =>
    (path ? showFile(path, group, "", showText(group)) : showText(group)));
  return make("li", { class: `turn ${roleOf(role)}` }, make("h3", {}, visible(role)), shown, showKnown(sides));
}

const NO_CHAT = "The pipeline gives no chat prompt; these messages are sent in its place.";
const absent = (what) => make("div", { class: "absent" }, what);
const nameThen = () => (data.totals ? data.against : `at ${data.against}`);
const heads = () => make("div", { class: "heads", "aria-hidden": "true" }, make("span", {}, nameThen()), make("span", {}, "now"));

function showChat({ then, now }) {
  if (!then || !now) {
    const { chat, lacksChat } = then || now;
    const list = (turns, style) => make("ol", { class: style }, turns.map((turn) => showTurn(turn, showAll, turn)));
    const answers = chat.filter(isAnswer);
    return [lacksChat ? absent(NO_CHAT) : "", list(chat.filter((turn) => !isAnswer(turn)), "turns"),
      answers.length ? list(answers, "answers") : null];
  }
  const notes = [then, now].map(({ lacksChat }) => make("div", {}, lacksChat ? absent(NO_CHAT) : ""));
  const rows = rowsOf(then.chat, now.chat).flatMap(({ pair, same }) => (same ? showTurn(pair[1], showOnce, ...pair) : showPair(pair)));
  return [heads(), then.lacksChat || now.lacksChat ? make("div", { class: "columns" }, notes) : "", make("ol", {}, rows)];
}

function showQuestion({ then, now }) {
  const side = then || now;
  if (!then || !now) return make("div", { class: "turn" }, showAll(side.question));
  return [heads(), make("div", { class: "turn" }, showSplit(then.question, now.question))];
}

/** Show JSON, indented; a line break in a text is shown as one, after its escape. */
function showJson(value, side, next, indent = "") {
  const inner = `${indent}  `;
  if (typeof value === "string") return visible(JSON.stringify(value));
  if (value === null || typeof value !== "object") return [String(value)];
  if (value.$ !== undefined) {
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

function showSent(sides) {
  const { then, now } = sides;
  const texts = [then, now].map((side) => (side ? [...spoken(side.sent[1], side.spans)] : []));
  const rows = then && now ? rowsOf(...texts).map(({ pair }) => [pair, mark(...pair.map((text) => text?.spans || []))]) : [];
  const marked = [0, 1].map((at) => rows.flatMap(([pair, spans]) => (pair[at] ? [spans[at]] : [])));
  const shown = then && now ? marked : texts.map((list) => list.map(({ spans }) => spans));
  const bodies = SIDES.filter((side) => sides[side]).map((side) => {
    const [notes, body] = sides[side].sent;
    const list = notes.length ? make("ul", { class: "notes" }, notes.map((note) => make("li", {}, visible(note)))) : null;
    const left = [...shown[SIDES.indexOf(side)]];
    const next = () => left.shift();
    const turn = body && make("div", { class: "turn" }, box(showJson(body, side, next)));
    return make("div", { "data-side": side === "then" ? nameThen() : "now" }, list, turn);
  });
  return bodies.length === 1 ? bodies : [heads(), make("div", { class: "columns" }, bodies)];
}
