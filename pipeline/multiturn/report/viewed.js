"use strict";
// What has been viewed, kept in this browser for this comparison: cases, and differences, which
// stand for all their cases.

const marks = new Set();  // "c" or "d", and a number
const differencesOf = [];  // the numbers of the differences of each case

const isReviewed = ({ status }) => status !== "same";
const isCaseViewed = (at) => marks.has(`c${at}`) || (differencesOf[at].length > 0 && differencesOf[at].every((number) => marks.has(`d${number}`)));
const isDifferenceViewed = (number) =>
  marks.has(`d${number}`) || data.differences[number].cases.every((at) => marks.has(`c${at}`));

/** Read what was viewed; the browser may refuse to keep anything. */
function loadViewed() {
  data.cases.forEach((_, at) => { differencesOf[at] = []; });
  data.differences.forEach(({ cases }, number) => cases.forEach((at) => differencesOf[at].push(number)));
  try {
    const kept = JSON.parse(localStorage.getItem(data.comparison));
    if (Array.isArray(kept)) kept.forEach((mark) => marks.add(mark));
  } catch { /* nothing is kept */ }
}

function keepViewed() {
  try {
    localStorage.setItem(data.comparison, JSON.stringify([...marks]));
  } catch { /* until the page is closed */ }
}

function viewCase(at, isViewed) {
  if (isViewed) marks.add(`c${at}`);
  else {
    differencesOf[at].forEach((number) => viewDifference(number, false, at));
    marks.delete(`c${at}`);
  }
}

/** Mark a difference; without its mark, its cases lose theirs, or only one of them does. */
function viewDifference(number, isViewed, only = null) {
  const { cases } = data.differences[number];
  if (isViewed) marks.add(`d${number}`);
  else {
    const others = only === null ? [] : cases.filter((at) => at !== only && isCaseViewed(at));
    if (only === null) cases.forEach((at) => marks.delete(`c${at}`));
    marks.delete(`d${number}`);
    others.forEach((at) => marks.add(`c${at}`));
  }
}

/** Say how far the review is, and mark in the list what was viewed. */
function showProgress() {
  const reviewed = data.cases.flatMap((entry, at) => (isReviewed(entry) ? [at] : []));
  const done = reviewed.filter(isCaseViewed);
  byId("progress").hidden = !data.against || !reviewed.length;
  byId("progress-words").textContent = `${done.length.toLocaleString("en")} of ${reviewed.length.toLocaleString("en")} viewed`;
  byId("progress-bar").max = reviewed.length;
  byId("progress-bar").value = done.length;
  const all = new Set(done);
  links.forEach((link, at) => {
    const tick = link.querySelector(".tick");
    if (all.has(at) && !tick) link.append(make("small", { class: "tick" }, "viewed"));
    else if (!all.has(at)) tick?.remove();
  });
  for (const box of document.querySelectorAll("input[data-mark]")) {
    const number = Number(box.dataset.mark.slice(1));
    box.checked = box.dataset.mark.startsWith("d") ? isDifferenceViewed(number) : isCaseViewed(number);
    box.closest(".difference")?.classList.toggle("viewed", box.checked);
  }
}

/** Return a box to tick for a case ("c") or a difference ("d"). */
function showTick(kind, number) {
  const view = kind === "d" ? viewDifference : viewCase;
  const onchange = ({ target }) => {
    view(number, target.checked);
    keepViewed();
    showProgress();
  };
  return make("label", { class: "view" }, make("input", { type: "checkbox", "data-mark": `${kind}${number}`, onchange }), " Viewed");
}
