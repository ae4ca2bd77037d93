"use strict";
// The list of cases, in groups of one cause.

const links = [];

function showList() {
  const groups = new Map();
  data.cases.forEach((entry, at) => {
    const [cause, other] = entry.causes || [];
    const title = `${entry.status}${cause ? `: ${other ? "more than one cause" : cause}` : ""}`;
    if (!groups.has(title)) groups.set(title, []);
    groups.get(title).push(at);
  });
  for (const [title, cases] of groups) {
    const isNamed = hasOverview() || title === "failed";
    const count = make("span", { class: "number" }, ` ${cases.length.toLocaleString("en")}`);
    // What all of a group have is said once, above them.
    const areAll = isNamed && cases.every((at) => data.cases[at].privileges);
    const [cause, other] = data.cases[cases[0]].causes || [];
    const of = other ? undefined : differencesOf[cases[0]].find((number) => data.differences[number].causes.includes(cause));
    byId("cases").append(make("section", {},
      isNamed ? make("h2", {}, visible(title), count, areAll ? showPrivilege() : null, showWords(of)) : null,
      make("ul", {}, cases.map((at) => make("li", {}, links[at] = listLink(at, areAll))))));
  }
}

/** Show the list, or hide it, in a window so narrow that it is above the case. */
function showSidebar(isListed) {
  document.body.classList.toggle("listed", isListed);
  byId("list-button").setAttribute("aria-expanded", String(isListed));
}

const showPrivilege = () => make("small", { class: "privilege" }, PRIVILEGE);

function listLink(at, isSaid) {
  const { id, suite, privileges, scores } = data.cases[at];
  return makeLink(at, visible(id), make("small", {}, visible(suite)), scores ? make("small", {}, visible(scores)) : null, privileges && !isSaid ? showPrivilege() : null);
}

function makeLink(at, ...content) {
  const { suite, id } = data.cases[at];
  const href = `#${new URLSearchParams({ suite, case: id })}`;
  const onclick = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    showSidebar(false);
    choose({ at }, "title");
    byId("case").scrollIntoView({ block: "nearest" });
    showFirstChange();
  };
  return make("a", { href, onclick }, content);
}

/** Bring the chosen case of the list into view; what is not drawn yet has a guessed height. */
function seeChosen() {
  const see = () => links[state.at]?.scrollIntoView({ block: "nearest" });
  see();
  requestAnimationFrame(see);
}

/** Go to the next or previous case that is shown. */
function step(by) {
  let at = state.at + by;
  while (links[at]?.parentElement.hidden) at += by;
  if (links[at]) {
    choose({ at }, "title");
    showFirstChange();
  } else if (at < 0 && hasOverview() && !state.isOverview) goHome("title");
}
