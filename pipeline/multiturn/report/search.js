"use strict";
// The filters of the list: by status, and by a query in all texts, which is marked where it is found.

const searched = { strings: [], texts: [] };  // in small letters; numbers of spans; both by line, from the first search on

/** Return whether a query is in spans, or begins in one and ends in another. */
function isIn(query, numbers, hits) {
  const most = query.length - 1;
  let before = "";
  for (let at = 0; at < numbers.length; at += 3) {
    if (hits.has(numbers[at]) || hits.has(numbers[at + 2])) return true;
    const text = searched.strings[numbers[at]];
    if (before && (before + text.slice(0, most)).includes(query)) return true;
    before = most ? (text.length < most ? before + text : text).slice(-most) : "";
  }
  return false;
}

function matches(entry, query, hits) {
  const names = [entry.suite, entry.id, entry.error || "", ...(entry.causes || [])];
  if (names.some((name) => name.toLowerCase().includes(query))) return true;
  return entry.texts && searched.texts[entry.texts].some((numbers) => isIn(query, numbers, hits));
}

function filterCases() {
  const query = state.query.toLowerCase();
  const hits = new Set();
  if (query && !searched.texts.length) {
    lines.forEach((line, number) => {
      const value = parse(line);
      if (typeof value === "string") searched.strings[number] = value.toLowerCase();
      else searched.texts[number] = Object.values(value).flatMap((side) => side.texts);
    });
  }
  searched.strings.forEach((text, at) => text.includes(query) && hits.add(at));
  const left = [];
  data.cases.forEach((entry, at) => {
    const hidden = (state.statuses.size > 0 && !state.statuses.has(entry.status))
      || (query !== "" && !matches(entry, query, hits));
    links[at].parentElement.hidden = hidden;
    if (!hidden) left.push(at);
  });
  for (const section of byId("cases").children) {
    section.hidden = !section.querySelector("li:not([hidden])");
  }
  const all = data.cases.length;
  byId("count").textContent = `${left.length === all ? "" : `${left.length.toLocaleString("en")} of `}${counted(all, "case")}`;
  state.left = new Set(left);
  followFilter(left);
  highlight(state.query);
}

/** Where a filter hides the shown case, show the first that is left; or the differences that are. */
function followFilter(left) {
  if (state.isOverview) showOverview();
  else if (left.length === data.cases.length) {
    if (state.at < 0) followAddress();
  } else if (!left.length) showNoCase("No case matches", "Esc clears the search.");
  else if (!left.includes(state.at)) choose({ at: left[0] });
}

/** Mark it in the panel, also where it begins in one span of a text and ends in another. */
function highlight(query) {
  if (!CSS.highlights) return;
  CSS.highlights.clear();
  const panel = byId("panel");
  if (!query || !panel) return;
  const found = new Highlight();
  const walker = document.createTreeWalker(panel, NodeFilter.SHOW_TEXT);
  let nodes = [];
  let text = null;
  const finish = () => {
    for (const range of rangesOf(nodes, query.toLowerCase())) {
      for (let at = range.startContainer.parentElement; at !== panel; at = at.parentElement) {
        if (at.matches("details")) at.open = true;
        else if (at.matches(".fold + [hidden]")) unfold(at.previousElementSibling, true);
      }
      found.add(range);
    }
  };
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    const next = parent.closest("summary, .text") || parent;
    if (next !== text) {
      finish();
      nodes = [];
      text = next;
    }
    nodes.push(walker.currentNode);
  }
  finish();
  CSS.highlights.set("found", found);
}

/** Return where a query is in the joined text of some nodes. */
function* rangesOf(nodes, query) {
  // Where a small letter is longer than its capital, the places would be other ones.
  const texts = nodes.map(({ data: text }) => (text.toLowerCase().length === text.length ? text.toLowerCase() : text));
  const joined = texts.join("");
  let node = 0;
  let start = 0;
  for (let at = joined.indexOf(query); at >= 0; at = joined.indexOf(query, at + query.length)) {
    const range = new Range();
    const end = at + query.length;
    while (start + texts[node].length <= at) start += texts[node++].length;
    range.setStart(nodes[node], at - start);
    while (start + texts[node].length < end) start += texts[node++].length;
    range.setEnd(nodes[node], end - start);
    yield range;
  }
}
