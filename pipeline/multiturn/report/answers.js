"use strict";
// The answers of a run: below their prompt, what is known of each, and a table of all targets.

const isAnswer = ({ role }) => role === "answer" || role.startsWith("answer ");

/** Complete the data of a page of answers: each case that is not as before is a difference. */
function completeAnswers() {
  if (!data.totals) return;
  Object.assign(data, { errors: [], changes: [], privileges: [], growth: "" });
  data.differences = data.cases.flatMap(({ id, status, scores }, at) => (!data.against || status === "same" ? []
    : [{ title: id, share: "", words: status, growth: scores, kind: status, path: "", cases: [at], causes: [], privileges: [] }]));
  byId("home").textContent = data.against ? "All differences" : "All targets";
  document.querySelector("h1").textContent = "Answers of a run";
  document.querySelector("footer").hidden = true;  // a result does not say where its texts are from
  VIEWS.splice(0, 2, "Prompt and answers");
}

/** Put each answer beside the one of the same target. */
function answerRows(then, now) {
  const titles = [...new Set([...then, ...now].filter(isAnswer).map(({ role }) => role))];
  return titles.map((title) => {
    const pair = [then, now].map((turns) => turns.find(({ role }) => role === title) || null);
    return { pair, same: pair.every(Boolean) && textOf(pair[0].spans) === textOf(pair[1].spans) };
  });
}

/** Show what is known of an answer, or of two, beside the text. */
function showKnown(turns) {
  if (!turns.some((turn) => turn?.facts)) return null;
  return make("div", { class: turns.length > 1 ? "columns" : null },
    turns.map((turn, at) => make("p", { class: "about answered", "data-side": at || turns.length < 2 ? "now" : nameThen() }, visible(turn?.facts || ""))));
}

/** Show the table of all targets. */
function showTotals() {
  if (!data.totals) return "";
  const [head, ...rows] = data.totals;
  const cells = (row) => row.map((cell, at) => make(at ? "td" : "th", at ? {} : { scope: "row" }, visible(cell)));
  return make("div", { id: "totals", role: "region", "aria-label": "Totals", tabindex: "0" }, make("table", {},
    make("thead", {}, make("tr", {}, head.map((cell) => make("th", { scope: "col" }, cell)))),
    make("tbody", {}, rows.map((row) => make("tr", {}, cells(row))))));
}
