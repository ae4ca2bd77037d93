"use strict";
// The landing view: each difference once, the dangerous ones first.

const MOST_CARDS = 20;  // shown at once; a browser lays out no thousands of them in a second
const MOST_LINKS = 50;
const ALONE = ["new", "removed"];  // differences that are a whole case, which is only named

function showOverview() {
  leaveCase();
  document.title = "Differences · Prompts";
  state.isOverview = true;
  byId("home").setAttribute("aria-current", "page");
  document.body.classList.add("overview");
  const shown = data.differences.map((_, number) => number).filter(isLeft);
  const cards = make("div", { id: "differences" });
  const all = data.differences;
  const cases = new Set(shown.flatMap((number) => all[number].cases.filter((at) => state.left.has(at))));
  const of = shown.length < all.length ? `${shown.length.toLocaleString("en")} of ` : "";
  byId("case").replaceChildren(
    make("h2", { id: "title", tabindex: "-1" }, all.length ? of + counted(all.length, "difference") : data.totals ? (data.against ? "No answer is different" : "Answers") : "No prompt is different"),
    make("p", { class: "about" }, shown.length && !data.totals ? `in ${counted(cases.size, "case")}, each shown once` : ""),
    showTotals(), showDangers(), showContents(shown), cards, make("div", { id: "others" }, showFailed()));
  addCards(cards, shown);
  showProgress();
}

/** Return whether a difference is one of cases that the filter leaves. */
const isLeft = (number) => data.differences[number].cases.some((at) => state.left.has(at));

/** Add cards, the first of many; a button adds the next ones. */
function addCards(cards, numbers) {
  steps = 0;
  cards.append(...numbers.slice(0, MOST_CARDS).map(showDifference));
  const left = numbers.slice(MOST_CARDS);
  if (!left.length) return;
  const more = make("button", { type: "button", class: "more" }, `Show ${Math.min(left.length, MOST_CARDS)} more of ${left.length.toLocaleString("en")}`);
  more.addEventListener("click", () => {
    const last = cards.lastElementChild;
    more.remove();
    addCards(cards, left);
    showProgress();
    last.nextElementSibling?.querySelector("h3").focus();
  });
  cards.after(more);
}

function showDifference(number) {
  const difference = data.differences[number];
  const { key, kind, path, privileges, growth, cases } = difference;
  return make("section", { class: `difference${privileges.length ? " dangerous" : ""}`, "data-number": number, "aria-labelledby": `difference-${number}` },
    make("div", { class: "head" },
      make("h3", { id: `difference-${number}`, tabindex: "-1" }, visible(difference.title), difference.share),
      privileges.length ? make("strong", { class: "privilege" }, PRIVILEGE) : null,
      showTick("d", number)),
    showFacts(difference),
    make("div", { class: "facts" }, showCases(cases), growth ? make("span", { class: "growth" }, growth) : null,
      key ? make("code", { class: "growth" }, `--accept ${key}`) : null),
    ALONE.includes(kind) && !privileges.length ? null : showContent(kind, path, cases[0]));
}

const MOST_FACTS = 3;

/** Show the causes and the changes of privilege that the title does not name; many are folded. */
function showFacts(difference) {
  const { title, causes, privileges } = difference;
  const words = new Set(privileges.map((privilege) => {
    const cause = causes.find((each) => privilege.endsWith(`, by ${each}`));
    return cause ? privilege.slice(0, -`, by ${cause}`.length) : privilege;
  }));
  const facts = [
    ...[...words].filter((fact) => fact !== title).map((fact) => make("li", { class: "privilege" }, visible(fact))),
    ...causes.filter((cause) => cause !== title).map((cause) => make("li", {}, visible(cause))),
  ];
  const first = facts.splice(0, facts.length > MOST_FACTS + 1 ? MOST_FACTS : facts.length);
  const unfold = ({ target }) => target.append(make("ul", { class: "causes" }, facts.splice(0)));
  return [make("ul", { class: "causes" }, first),
    facts.length ? make("details", { class: "in causes", ontoggle: unfold }, make("summary", {}, counted(facts.length, "more cause"))) : null];
}

/** Name the cases of a difference: one at once, many when that is asked for. */
function showCases(cases) {
  if (cases.length === 1) return make("span", {}, "in ", caseLink(cases[0]));
  const fold = make("details", { class: "in" }, make("summary", {}, `in ${counted(cases.length, "case")}`));
  fold.addEventListener("toggle", () => { if (!fold.querySelector("ul")) addLinks(fold, cases); });
  return fold;
}

function addLinks(fold, cases) {
  const list = make("ul", { class: "links" });
  const left = [...cases];
  const add = () => list.append(...left.splice(0, MOST_LINKS).map((at) => make("li", {}, caseLink(at))));
  add();
  fold.append(list);
  if (!left.length) return;
  const more = make("button", { type: "button", class: "more" }, `${left.length.toLocaleString("en")} more`);
  more.addEventListener("click", () => { add(); more.textContent = `${left.length.toLocaleString("en")} more`; if (!left.length) more.remove(); });
  fold.append(more);
}

const caseLink = (at) => makeLink(at, visible(data.cases[at].id), make("small", {}, " ", visible(data.cases[at].suite)));

/** Show what differs, in the words of one case; other differences of that case are left out. */
function showContent(kind, path, at) {
  const entry = data.cases[at];
  if (!entry.texts) return "";
  const sides = sidesOf(entry);
  if (path) return showFileOf(sides, path);
  const files = new Set(differencesOf[at].map((number) => data.differences[number].path));
  const isHidden = (span) => isOfFile(span) && files.has(span.path) && kind === "changed";
  const [old, now] = [sides.then?.chat || [], sides.now?.chat || []];
  const rows = rowsOf(old, now).flatMap(({ pair, same }) => (same ? [] : showPair(pair, isHidden)));
  if (rows.length) return [heads(), make("ol", { class: "content", tabindex: data.totals ? "0" : null }, rows)];
  const question = showSplit(sides.then?.question || [], sides.now?.question || [], isHidden);
  const isSame = !question.some((row) => row.matches(".changed"));
  return isSame ? make("p", { class: "about" }, NOT_IN_CHAT) : [heads(), make("div", { class: "turn content" }, make("h3", {}, "transcript"), question)];
}

const NOT_IN_CHAT = "Only what a provider is sent has changed; the case shows it.";

/** Show a file on both sides, wherever it is in the prompt. */
function showFileOf(sides, path) {
  const found = SIDES.map((side) => {
    const all = sides[side] ? [...sides[side].chat, { role: "", spans: sides[side].question }] : [];
    const isFound = (span) => span.path === path && isOfFile(span);
    const turn = all.find(({ spans }) => spans.some(isFound));
    return turn && { role: turn.role, spans: turn.spans.filter(isFound) };
  });
  const [was, role] = [found[0]?.role, (found[1] || found[0])?.role];
  const rows = showSplit(found[0]?.spans || [], found[1]?.spans || []);
  if (!rows.length) return make("p", { class: "about" }, NOT_IN_CHAT);
  const isMoved = was && role && was !== role;
  const title = make("h3", { class: isMoved ? "changed" : null }, isMoved ? moved(was, role) : visible(role || "transcript"));
  return [heads(), make("div", { class: `turn content ${roleOf(role || "")}` }, title, rows)];
}

/** List the cases that failed, which are in no difference. */
function showFailed() {
  const cases = [...state.left].filter((at) => data.cases[at].status === "failed");
  if (!cases.length) return [];
  const fold = make("details", { class: "in", open: cases.length <= 5 ? "" : null }, make("summary", {}, `${counted(cases.length, "case")} failed`));
  addLinks(fold, cases);
  return fold;
}

/** Name above all the changes of privilege, each once, and what has changed in the pipeline. */
function showDangers() {
  const show = ([privilege, at, cases]) =>
    make("p", {}, dangerLink(privilege, at), ` in ${counted(cases, "case")}`, showWords(differenceWith(privilege, at)));
  const { privileges, changes: pipeline } = data;
  const box = make("div", { id: "privileges" },
    pipeline.map((change) => make("p", {}, "The pipeline has changed: ", visible(change))),
    privileges.length ? make("h3", {}, counted(privileges.length, "change"), " of privilege") : null,
    privileges.slice(0, data.most).map(show));
  const others = privileges.slice(data.most);
  const unfold = ({ target }) => target.append(...others.splice(0).map(show));
  if (others.length) box.append(make("details", { class: "in", ontoggle: unfold }, make("summary", {}, `${others.length} more`)));
  return box;
}

/** Return the number of the difference that has a change of privilege of a case; undefined if none has. */
function differenceWith(privilege, at) {
  const isSame = (words) => words.startsWith(privilege) || privilege.startsWith(words);
  return differencesOf[at].find((each) => data.differences[each].privileges.some(isSame));
}

/** Lead to the difference that has a change of privilege, or to its first case. */
function dangerLink(privilege, at) {
  const number = differenceWith(privilege, at);
  return number === undefined ? makeLink(at, visible(privilege)) : cardLink(number, privilege);
}

/** Say which words have changed first, unless the title of the difference says it. */
function showWords(number) {
  const { words, title } = data.differences[number] || { words: "" };
  return words && words !== title ? make("small", { class: "words" }, " ", visible(words)) : null;
}

function cardLink(number, words) {
  const onclick = (event) => {
    event.preventDefault();
    const card = document.querySelector(`[data-number="${number}"]`);
    if (card) showChange([card], 0);
    else choose({ at: data.differences[number].cases[0] }, "title");
  };
  return make("a", { href: `#difference-${number}`, onclick }, visible(words));
}

/** List the differences that are no change of privilege, to see all of them at once. */
function showContents(numbers) {
  const safe = numbers.filter((number) => !data.differences[number].privileges.length).slice(0, MOST_CARDS);
  return safe.length < 2 ? "" : make("ul", { id: "contents" }, safe.map((number) => {
    const { title, share, cases, growth } = data.differences[number];
    return make("li", {}, cardLink(number, title + share), showWords(number),
      make("small", {}, data.totals ? (growth && `, ${growth}`) : growth.includes(" in ") ? ` ${growth}` : ` in ${counted(cases.length, "case")}${growth ? `, ${growth}` : ""}`));
  }));
}
