"use strict";
// The case that is chosen, its heading and tabs, and the address.

const PRIVILEGE = "Change of privilege";
const VIEWS = ["Chat prompt", "Transcript"];
const state = { at: -1, view: 0, isOverview: false, shown: new Set(ROLES), statuses: new Set(), query: "", left: new Set() };
const counted = (number, what) => `${number.toLocaleString("en")} ${what}${number === 1 ? "" : "s"}`;

const SAME = "Its texts are the same. With --all, the report has them.";

function showCase() {
  const entry = data.cases[state.at];
  const article = byId("case");
  document.title = `${entry.id} · Prompts`;
  const place = `${entry.suite}${entry.line ? `:${entry.line}` : ""}`;
  const was = entry.was ? [" from ", visible(entry.was.join(" · "))] : [];
  const viewed = data.against && isReviewed(entry) ? showTick("c", state.at) : null;
  article.replaceChildren(
    make("div", { class: "title" }, make("h2", { id: "title", tabindex: "-1" }, visible(entry.id)), viewed),
    make("p", { class: "about" }, visible(place), hasOverview() ? [` · ${entry.status}`, was, entry.scores ? ` · ${entry.scores}` : ""] : []),
    make("ul", { class: "causes" },
      (entry.causes || []).map((cause) => make("li", {}, visible(cause))),
      (entry.privileges || []).map((privilege) => make("li", { class: "privilege" }, visible(privilege)))));
  showProgress();
  if (entry.error) article.append(make("p", { class: "error" }, visible(entry.error)));
  else if (!entry.texts) article.append(make("p", { class: "absent" }, SAME));
  if (!entry.texts) return;
  steps = 0;
  const sides = sidesOf(entry);
  const tabs = VIEWS.map((name, at) => make("button", {
    type: "button", role: "tab", id: `tab-${at}`, "aria-controls": "panel",
    "aria-selected": String(at === state.view), tabindex: at === state.view ? "0" : "-1",
    onclick: () => choose({ view: at }),
  }, name));
  const view = [showChat, showQuestion, showSent][state.view];
  article.append(
    make("div", { class: "bar" },
      VIEWS.length > 1 ? make("div", { role: "tablist", "aria-label": "What to show" }, tabs) : null,
      state.view ? null : make("div", { role: "group", "aria-label": "Roles to show" }, ROLES.map(showRole)),
      sides.then && sides.now ? showSteps() : null),
    make("div", { id: "panel", role: "tabpanel", "aria-label": VIEWS[state.view], tabindex: "0" }, view(sides)));
  filterRoles();
  highlight(state.query);
  sayChange();
}

function showRole(role) {
  const toggle = ({ target }) => {
    if (!state.shown.delete(role)) state.shown.add(role);
    target.setAttribute("aria-pressed", String(state.shown.has(role)));
    filterRoles();
  };
  const pressed = String(state.shown.has(role));
  return make("button", { type: "button", class: `role ${role}`, "aria-pressed": pressed, onclick: toggle }, role);
}

function filterRoles() {
  for (const role of ROLES) byId("panel")?.classList.toggle(`no-${role}`, !state.shown.has(role));
}

/** Leave the case or the overview that is shown, for what will be. */
function leaveCase() {
  links[state.at]?.removeAttribute("aria-current");
  byId("home").removeAttribute("aria-current");
  document.body.classList.remove("overview");
  Object.assign(state, { at: -1, isOverview: false });
}

/** Go to a case or a view; the address follows, so that it can be shared, and so does the focus. */
function choose({ at = state.at, view = state.view }, focus, stay = false) {
  const entry = data.cases[at];
  if (!entry) return;
  const route = { suite: entry.suite, case: entry.id, view: VIEWS[view] };
  // From the overview to a case is a step to come back from.
  const go = state.isOverview ? "pushState" : "replaceState";
  if (!stay) history[go](null, "", `#${new URLSearchParams(route)}`);
  const moved = at !== state.at;
  const { activeElement } = document;
  const inside = byId("case").contains(activeElement);
  leaveCase();
  links[at].setAttribute("aria-current", "true");
  Object.assign(state, { at, view });
  showCase();
  seeChosen();
  if (moved) document.querySelector("main").scrollTop = 0;
  const name = focus || (activeElement.getAttribute("role") === "tab" ? `tab-${view}` : activeElement.id);
  if (focus || inside) (byId(name) || byId("panel") || byId("title")).focus();
}

const hasOverview = () => Boolean(data.against || data.totals);

/** Show what the page begins with: what is different, or the first case if nothing is compared. */
function showHome() {
  if (hasOverview()) showOverview();
  else choose({ at: 0 }, "", location.hash !== "");
}

function followAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!wanted.has("suite") || !wanted.has("case")) {
    if (state.at < 0 || !location.hash) showHome();
    return;
  }
  const at = data.cases.findIndex((entry) => entry.suite === wanted.get("suite") && entry.id === wanted.get("case"));
  if (at < 0) {
    showNoCase("No such case in this report", `${wanted.get("suite")} · ${wanted.get("case")}`);
    return;
  }
  choose({ at, view: Math.max(VIEWS.indexOf(wanted.get("view")), 0) }, "", true);
  showFirstChange();
}

function showNoCase(title, about) {
  leaveCase();
  document.title = `${title} · Prompts`;
  byId("case").replaceChildren(
    make("h2", { id: "title", tabindex: "-1" }, title),
    make("p", { class: "about" }, visible(about)));
}

/* ---- the page ---- */

const HINT = "Point at a text, or tab to it, to see where it comes from.";

function showOrigin(event) {
  const origin = event.target.closest?.("[data-origin]")?.dataset.origin;
  byId("origin").replaceChildren(...(origin ? visible(origin) : [HINT]));
}

/** Say what has changed in one sentence. */
function summary(counts) {
  const about = `pipeline ${data.pipeline}${data.sample ? ` · ${data.sample}` : ""}`;
  if (!data.against) return about;
  const found = [...counts].filter(([status]) => status !== "same")
    .map(([status, cases], at) => `${at ? cases.toLocaleString("en") : counted(cases, "case")} ${status}`).join(", ");
  return `${about} · compared with ${data.against} · ${found || "0 cases changed"}${data.growth ? ` · ${data.growth}` : ""}`;
}

/** Return a button that shows the cases of one status, or hides them again. */
function statusButton([status, cases]) {
  const onclick = ({ target }) => {
    const pressed = !state.statuses.delete(status);
    if (pressed) state.statuses.add(status);
    target.setAttribute("aria-pressed", String(pressed));
    filterCases();
  };
  const name = hasOverview() || status === "failed" ? status : "converted";
  return make("button", { type: "button", "aria-pressed": "false", onclick }, `${cases.toLocaleString("en")} ${name}`);
}

async function start() {
  await load();
  loadViewed();
  if (data.target) VIEWS.push(data.target);
  const counts = new Map();  // in the order of the cases
  for (const { status } of data.cases) counts.set(status, (counts.get(status) || 0) + 1);
  byId("summary").replaceChildren(...visible(data.summary || summary(counts)));
  if (counts.size > 1) byId("statuses").append(...[...counts].map(statusButton));
  byId("home").hidden = !hasOverview();
  byId("errors").append(...data.errors.map((error) => make("p", {}, visible(error))));
  showList();
  filterCases();
  showOrigin({ target: document });
  listen();
}

start();
