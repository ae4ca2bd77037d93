"use strict";
// The list of cases, the case that is chosen, and the keys.

const ROLES = ["system", "user", "assistant", "tool"];
const PRIVILEGE = "Change of privilege";
const VIEWS = ["Chat prompt", "Transcript"];
const state = { at: -1, view: 0, shown: new Set(ROLES), statuses: new Set(), query: "" };
const links = [];
const numbered = (cases) => `${cases} ${cases === 1 ? "case" : "cases"}`;

const SAME = "Its texts are the same. With --all, the report has them.";

function showCase() {
  const entry = data.cases[state.at];
  const article = byId("case");
  document.title = `${entry.id} · Prompts`;
  const place = `${entry.suite}${entry.line ? `:${entry.line}` : ""}`;
  const was = entry.was ? [" from ", visible(entry.was.join(" · "))] : [];
  article.replaceChildren(
    make("h2", { id: "title", tabindex: "-1" }, visible(entry.id)),
    make("p", { class: "about" }, visible(place), data.against ? [` · ${entry.status}`, was] : []),
    make("ul", { class: "causes" },
      (entry.causes || []).map((cause) => make("li", {}, visible(cause))),
      (entry.privileges || []).map((privilege) => make("li", { class: "privilege" }, visible(privilege)))));
  if (entry.error) article.append(make("p", { class: "error" }, visible(entry.error)));
  else if (!entry.shown) article.append(make("p", { class: "absent" }, SAME));
  if (!entry.shown) return;
  steps = 0;
  const sides = sidesOf(entry);
  const tabs = VIEWS.map((name, at) => make("button", {
    type: "button", role: "tab", id: `tab-${at}`, "aria-controls": "panel",
    "aria-selected": String(at === state.view), tabindex: at === state.view ? "0" : "-1",
    onclick: () => choose({ view: at }),
  }, name));
  const view = [showChat, showQuestion][state.view] || ((shown) => showPayload(shown, state.view - 2));
  article.append(
    make("div", { class: "bar" },
      make("div", { role: "tablist", "aria-label": "What to show" }, tabs),
      state.view ? null : make("div", { role: "group", "aria-label": "Roles to show" }, ROLES.map(showRole))),
    make("div", { id: "panel", role: "tabpanel", "aria-labelledby": `tab-${state.view}`, tabindex: "0" }, view(sides)));
  filterRoles();
  highlight(state.query);
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

/** Go to a case or a view; the address follows, so that it can be shared, and so does the focus. */
function choose({ at = state.at, view = state.view }, focus, stay = false) {
  const entry = data.cases[at];
  if (!entry) return;
  const route = { suite: entry.suite, case: entry.id, view: VIEWS[view] };
  if (!stay) history.replaceState(null, "", `#${new URLSearchParams(route)}`);
  links[state.at]?.removeAttribute("aria-current");
  links[at].setAttribute("aria-current", "true");
  const moved = at !== state.at;
  const { activeElement } = document;
  const inside = byId("case").contains(activeElement);
  Object.assign(state, { at, view });
  showCase();
  if (moved) {
    links[at].scrollIntoView({ block: "nearest" });
    document.querySelector("main").scrollTop = 0;
  }
  const name = focus || (activeElement.getAttribute("role") === "tab" ? `tab-${view}` : activeElement.id);
  if (focus || inside) (byId(name) || byId("panel") || byId("title")).focus();
}

function followAddress() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  if (!wanted.has("suite") || !wanted.has("case")) {
    if (state.at < 0) choose({ at: 0 }, "", location.hash !== "");
    return;
  }
  const at = data.cases.findIndex((entry) => entry.suite === wanted.get("suite") && entry.id === wanted.get("case"));
  if (at >= 0) {
    choose({ at, view: Math.max(VIEWS.indexOf(wanted.get("view")), 0) });
    return;
  }
  showNoCase("No such case in this report", `${wanted.get("suite")} · ${wanted.get("case")}`);
}

function showNoCase(title, about) {
  links[state.at]?.removeAttribute("aria-current");
  state.at = -1;
  document.title = `${title} · Prompts`;
  byId("case").replaceChildren(
    make("h2", { id: "title", tabindex: "-1" }, title),
    make("p", { class: "about" }, visible(about)));
}

/* ---- the list of cases ---- */

function showList() {
  let heading = null;
  let list = null;
  data.cases.forEach((entry, at) => {
    const [cause, other] = entry.causes || [];
    const title = `${entry.status}${cause ? `: ${other ? "more than one cause" : cause}` : ""}`;
    if (title !== heading) {
      heading = title;
      list = make("ul");
      byId("cases").append(make("section", {}, data.against || title === "failed" ? make("h2", {}, visible(title)) : null, list));
    }
    links[at] = makeLink(at, visible(entry.id), make("small", {}, visible(entry.suite)),
      entry.privileges ? make("small", { class: "privilege" }, PRIVILEGE) : null);
    list.append(make("li", {}, links[at]));
  });
}

function makeLink(at, ...content) {
  const { suite, id } = data.cases[at];
  const href = `#${new URLSearchParams({ suite, case: id })}`;
  const onclick = (event) => {
    event.preventDefault();
    choose({ at }, "title");
    byId("case").scrollIntoView({ block: "nearest" });
  };
  return make("a", { href, onclick }, content);
}

/** Name above all the changes of privilege, and what has changed in the pipeline. */
function showDangers() {
  const show = ([privilege, at, cases]) =>
    make("p", {}, `${PRIVILEGE}: `, makeLink(at, visible(privilege)), `, in ${numbered(cases)}`);
  byId("privileges").append(
    ...data.changes.map((change) => make("p", {}, "The pipeline has changed: ", visible(change))),
    ...data.privileges.slice(0, data.most).map(show));
  const others = data.privileges.slice(data.most);
  if (!others.length) return;
  const unfold = ({ target }) => target.append(...others.splice(0).map(show));
  byId("privileges").append(make("details", { ontoggle: unfold }, make("summary", {}, `${others.length} more`)));
}

function step(by) {
  let at = state.at + by;
  while (links[at]?.parentElement.hidden) at += by;
  if (links[at]) choose({ at }, "title");
}

/* ---- the page ---- */

const HINT = "Point at a text, or tab to it, to see where it comes from.";

function showOrigin(event) {
  const origin = event.target.closest?.("[data-origin]")?.dataset.origin;
  byId("origin").replaceChildren(...(origin ? visible(origin) : [HINT]));
}

/** Say what has changed in one sentence; what was removed cannot be seen otherwise. */
function summary(counts) {
  const about = `pipeline ${data.pipeline}${data.sample ? ` · ${data.sample}` : ""}`;
  if (!data.against) return about;
  const found = [...counts].filter(([status]) => status !== "same")
    .map(([status, cases], at) => `${at ? cases : numbered(cases)} ${status}`).join(", ");
  const suites = data.removed.length ? `; all cases of ${data.removed.join(", ")} removed` : "";
  return `${about} · compared with ${data.against} · ${found || "0 cases changed"}${suites}`;
}

async function start() {
  await load();
  VIEWS.push(...data.providers);
  const counts = new Map();  // in the order of the cases
  for (const { status } of data.cases) counts.set(status, (counts.get(status) || 0) + 1);
  byId("summary").replaceChildren(...visible(summary(counts)));
  if (counts.size > 1) {
    byId("statuses").append(...[...counts].map(([status, cases]) => make("button", {
      type: "button", "aria-pressed": "false",
      onclick: (event) => {
        const pressed = !state.statuses.delete(status);
        if (pressed) state.statuses.add(status);
        event.target.setAttribute("aria-pressed", String(pressed));
        filterCases();
      },
    }, `${cases} ${data.against || status === "failed" ? status : "converted"}`)));
  }
  byId("errors").append(...data.errors.map((error) => make("p", {}, visible(error))));
  showList();
  showDangers();
  filterCases();
  showOrigin({ target: document });
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { state.query = event.target.value; filterCases(); }, 80);
  });
  byId("case").addEventListener("mouseover", showOrigin);
  byId("case").addEventListener("focusin", showOrigin);
  byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("title")?.focus(); });
  byId("help-button").addEventListener("click", () => byId("help").showModal());
  addEventListener("hashchange", followAddress);
  addEventListener("keydown", onKey);
}

const TAB_KEYS = { ArrowLeft: (view) => view - 1, ArrowRight: (view) => view + 1, Home: () => 0, End: () => -1 };

function onKey(event) {
  const typing = event.target.id === "search";
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open) return;
  if (event.key === "Escape" && state.query) {
    byId("search").value = state.query = "";
    filterCases();
  } else if (typing || (event.key.length === 1 && !byId("keys").checked)) {
    return;
  } else if (event.key === "j") step(1);
  else if (event.key === "k") step(-1);
  else if (event.key === "/") byId("search").focus();
  else if (event.key === "?") byId("help").showModal();
  else if (event.key === "e") {
    const folds = [...document.querySelectorAll("#panel details")];
    const open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  } else if (/^[1-9]$/.test(event.key) && VIEWS[event.key - 1]) choose({ view: event.key - 1 });
  else if (event.target.getAttribute?.("role") === "tab" && TAB_KEYS[event.key]) {
    choose({ view: (TAB_KEYS[event.key](state.view) + VIEWS.length) % VIEWS.length });
  } else return;
  event.preventDefault();
}

start();
