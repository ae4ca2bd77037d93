"use strict";
// The keys, the changes that they go through, and what else is listened to.

/* ---- the changes of a case ---- */

const NEAR = 24;  // pixels between what is one change, where it is not shown in rows

/** Return the first element of each change that is shown, from the top to the bottom. */
function changesShown() {
  const isShown = (element) => element.getClientRects().length > 0;
  const rows = [...document.querySelectorAll("#panel .row.changed, #panel h3.changed")].filter(isShown);
  if (rows.length || document.querySelector("#panel .row")) return rows;
  const marked = [...document.querySelectorAll("#panel ins, #panel del")].filter(isShown)
    .map((element) => ({ element, ...element.getBoundingClientRect().toJSON() }))
    .sort((a, b) => a.top - b.top);
  let last = -Infinity;
  return marked.flatMap(({ element, top, bottom }) => {
    const isNew = top > last + NEAR;
    last = Math.max(last, bottom);
    return isNew ? [element] : [];
  });
}

function showSteps() {
  const button = (by, sign, label) =>
    make("button", { type: "button", "aria-label": label, onclick: () => stepChange(by) }, sign);
  return make("div", { class: "steps" }, button(-1, "↑", "Previous change"),
    make("span", { id: "at-change", role: "status" }), button(1, "↓", "Next change"));
}

function sayChange(found = changesShown(), at = -1) {
  if (!byId("at-change")) return;
  const all = `${found.length} ${found.length === 1 ? "change" : "changes"}`;
  byId("at-change").textContent = !found.length ? "no change in this view" : at < 0 ? all : `${at + 1} of ${all}`;
}

/** Go to the next or previous change, or on the overview to a difference. */
function stepChange(by) {
  const all = () => (state.isOverview ? [...document.querySelectorAll(".difference")] : changesShown());
  let found = all();
  if (!found.length) return;
  const was = found.findIndex((element) => element.classList.contains("here"));
  if (state.isOverview && by > 0 && was === found.length - 1) {
    document.querySelector("#differences + .more")?.click();
    found = all();
  }
  const at = was < 0 && by < 0 ? found.length - 1 : Math.min(Math.max(was + by, 0), found.length - 1);
  showChange(found, at);
}

function showChange(found, at) {
  document.querySelector(".here")?.classList.remove("here");
  found[at].classList.add("here");
  if (state.isOverview) {
    found[at].querySelector("h3").focus({ preventScroll: true });
    found[at].scrollIntoView({ block: "start" });
  } else {
    found[at].scrollIntoView({ block: "center" });
    sayChange(found, at);
  }
}

/** See that the first change is in view when a case opens. */
function showFirstChange() {
  const [first] = changesShown();
  if (first && first.getBoundingClientRect().bottom > innerHeight * 0.9) first.scrollIntoView({ block: "center" });
}

/* ---- keys ---- */

const TAB_KEYS = { ArrowLeft: (view) => view - 1, ArrowRight: (view) => view + 1, Home: () => 0, End: () => -1 };

const LETTERS = {
  j: () => step(1),
  k: () => step(-1),
  n: () => stepChange(1),
  p: () => stepChange(-1),
  v: toggleViewed,
  o: () => hasOverview() && goHome("title"),
  e: unfoldAll,
  "/": () => byId("search").focus(),
  "?": () => byId("help").showModal(),
};

/** Mark the case as viewed, or on the overview the difference that has the focus. */
function toggleViewed() {
  const card = document.activeElement.closest(".difference") || document.querySelector(".difference.here");
  (state.isOverview ? card : byId("case"))?.querySelector(".view input")?.click();
}

function unfoldAll() {
  const folds = [...document.querySelectorAll("#panel details")];
  const buttons = [...document.querySelectorAll("#panel .fold")];
  const isOpen = (button) => button.getAttribute("aria-expanded") === "true";
  const open = folds.some((fold) => !fold.open) || !buttons.every(isOpen);
  for (const fold of folds) fold.open = open;
  for (const button of buttons) unfold(button, open);
}

/** Go to the overview; the way back from a case is another step of the history. */
function goHome(focus) {
  if (!state.isOverview) history.pushState(null, "", "#");
  showSidebar(false);
  showOverview();
  document.querySelector("main").scrollTop = 0;
  if (focus) byId(focus).focus();
}

function onKey(event) {
  const typing = event.target.id === "search";
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  const isTab = event.target.getAttribute?.("role") === "tab";
  if (event.key === "Escape" && state.query) {
    byId("search").value = state.query = "";
    filterCases();
  } else if (typing || (event.key.length === 1 && !byId("keys").checked)) return;
  else if (Object.hasOwn(LETTERS, event.key)) LETTERS[event.key]();
  else if (/^[1-9]$/.test(event.key) && VIEWS[event.key - 1]) choose({ view: event.key - 1 });
  else if (isTab && TAB_KEYS[event.key]) {
    choose({ view: (TAB_KEYS[event.key](state.view) + VIEWS.length) % VIEWS.length });
  } else return;
  event.preventDefault();
}

/** Listen to all that lies outside the case. */
function listen() {
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.query = event.target.value; filterCases(); }, 80);
  });
  byId("case").addEventListener("mouseover", showOrigin);
  byId("case").addEventListener("focusin", showOrigin);
  byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("title")?.focus(); });
  byId("home").addEventListener("click", (event) => { event.preventDefault(); goHome("title"); });
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  byId("list-button").addEventListener("click", () => showSidebar(!document.body.classList.contains("listed")));
  addEventListener("hashchange", followAddress);
  addEventListener("keydown", onKey);
}
