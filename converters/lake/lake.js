/* The page of a lake: its totals, the table of its data sets, filters, and what of it is shown.
   What is shown stands in the address after #, so that a view can be sent to somebody. */

const lake = JSON.parse(document.getElementById("lake").textContent);
const SETS = lake.sets.map((one, place) => ({ ...one, place_in_lake: place, sought: sought(one) }));
const BY_NAME = new Map(SETS.map((one) => [one.name, one]));
const SLICE = 60;
const CHOICES = 300;
const order = new Intl.Collator("en", { numeric: true });
const $ = (id) => document.getElementById(id);

function sought(one) {
  return [one.name, one.place, one.why, one.hint].filter(Boolean).join("\n").toLowerCase();
}

/* --- columns */

function cost(one) {
  return one.spent && one.spent.calls ? one.spent.cost : undefined;
}

function rejected(one) {
  return one.rows ? one.rows.rejected : undefined;
}

function nameCell(one) {
  const link = text(one.name, "a", { href: hash({ ...state, set: one.name }), class: "name" });
  const place = one.place !== one.name ? text(one.place, "span", { class: "place" }) : null;
  return [link, place];
}

const statusText = (status) => status.replaceAll("_", " ");

function statusCell(one) {
  return el("span", { class: "status s-" + one.status, title: lake.statuses[one.status] }, statusText(one.status));
}

/* Why there are no records, where there are none. */
function reasonCell(one) {
  const why = one.status === "converted" ? "" : one.why || one.hint || "";
  return [statusCell(one), why ? text(why, "span", { class: "reason", title: plain(why) }) : null];
}

function rejectsCell(one) {
  if (!rejected(one)) return count(rejected(one));
  const [reason, number] = one.rejects ? one.rejects.first[0] : ["", 0];
  const what = reason ? reason + ": " + count(number) : "";
  return [count(rejected(one)), bar([["red", rejected(one), what]], one.rows.read, percent(rejected(one) / one.rows.read) + " of the rows"),
    text(reason, "span", { class: "reason", title: plain(what) })];
}

function languageCell(one) {
  if (!one.languages) return UNKNOWN;
  const [code, number] = one.languages.first[0];
  const share = number / total(one.languages);
  return [languageBar(one.languages), text(share < 0.9995 ? languageName(code) + " " + percent(share) : languageName(code), "span", { class: "reason" })];
}

/* A confidence below what the lake asks for has another colour. */
function confidenceCell(one) {
  if (one.confidence === undefined) return UNKNOWN;
  const low = one.confidence < lake.told.sure;
  const what = "confidence " + percent(one.confidence) + (low ? ", below " + percent(lake.told.sure) : "");
  return [percent(one.confidence), bar([[low ? "orange" : "blue", one.confidence, what]], 1, what)];
}

function costCell(one) {
  if (!one.spent || !one.spent.calls) return UNKNOWN;
  return one.spent.cost === null || one.spent.cost === undefined ? "unpriced" : dollars(one.spent.cost);
}

/* kind: how it is aligned and which way it is sorted at first; of: what it is sorted by. */
const COLUMNS = [
  { key: "name", label: "Data set", kind: "text", of: (one) => one.name, cell: nameCell },
  { key: "decision", label: "Decision", kind: "text", of: (one) => one.decision, cell: (one) => one.decision || UNKNOWN },
  { key: "status", label: "Status", kind: "text", of: (one) => one.status, cell: reasonCell },
  { key: "mapper", label: "Mapper", kind: "text", of: (one) => one.mapper, cell: (one) => one.mapper || UNKNOWN },
  { key: "confidence", label: "Confidence", title: "confidence of the proposal", kind: "number", of: (one) => one.confidence, cell: confidenceCell },
  { key: "coverage", label: "Coverage", title: "share of the sampled records without an error", kind: "number", of: (one) => one.coverage, cell: (one) => percent(one.coverage) },
  { key: "rows", label: "Rows", kind: "number", of: (one) => one.rows && one.rows.read, cell: (one) => count(one.rows && one.rows.read) },
  { key: "records", label: "Records", kind: "number", of: (one) => one.records, cell: (one) => count(one.records) },
  { key: "rejected", label: "Rejected", title: "rejected rows, and the most frequent reason", kind: "number", of: rejected, cell: rejectsCell },
  { key: "tokens", label: "Tokens", kind: "number", of: (one) => one.tokens, cell: (one) => count(one.tokens) },
  { key: "language", label: "Language", title: "languages of its records", kind: "text", of: (one) => one.languages && languageName(one.languages.first[0][0]), cell: languageCell },
  { key: "length", label: "Length", title: "characters of its records, each bin twice as long as the one before; sorted by the middle record", kind: "number", of: (one) => one.lengths && middle(one.lengths), cell: (one) => one.lengths ? histogram(one.lengths) : UNKNOWN },
  { key: "within", label: "Duplicates", title: "records that duplicate an earlier record of the same data set", kind: "number", of: (one) => one.records === undefined ? undefined : one.within || 0, cell: (one) => one.records === undefined ? UNKNOWN : count(one.within || 0) },
  { key: "across", label: "Across", title: "records that duplicate a record of an earlier data set", kind: "number", of: (one) => one.records === undefined ? undefined : one.across || 0, cell: (one) => one.records === undefined ? UNKNOWN : count(one.across || 0) },
  { key: "cost", label: "Cost", title: "what asking a model cost", kind: "number", of: cost, cell: costCell },
];
const BY_KEY = new Map(COLUMNS.map((column) => [column.key, column]));

/* --- what is shown: state, its address */

const NOTHING = { q: "", status: [], decision: "", language: "", mapper: "", sort: "name", set: "" };
let state = { ...NOTHING };
let shown = SETS;

function hash(view) {
  const pairs = Object.entries(view)
    .map(([name, value]) => [name, Array.isArray(value) ? value.join(",") : value])
    .filter(([name, value]) => value && value !== NOTHING[name]);
  return "#" + new URLSearchParams(pairs);
}

/* The view that an address tells; what it does not know is left out. */
function viewOf(address) {
  const told = new URLSearchParams(address.replace(/^#/, ""));
  const view = { ...NOTHING };
  for (const name of ["q", "decision", "language", "mapper", "set"]) {
    if (told.has(name)) view[name] = told.get(name);
  }
  view.status = (told.get("status") || "").split(",").filter((one) => Object.hasOwn(lake.statuses, one));
  if (BY_KEY.has((told.get("sort") || "").replace(/^-/, ""))) view.sort = told.get("sort");
  if (!BY_NAME.has(view.set)) view.set = "";
  return view;
}

function show(change, push = false) {
  const before = state;
  state = { ...state, ...change };
  address(push);
  draw(before);
}

/* A browser may refuse an address that changes with every letter; what is shown changes anyway. */
function address(push) {
  const told = hash(state) === "#" ? location.pathname + location.search : hash(state);
  try {
    history[push ? "pushState" : "replaceState"](null, "", told);
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
  }
}

function follow() {
  const before = state;
  state = viewOf(location.hash);
  draw(before);
}

/* --- filters and order */

const NONE = "(none)";

function fits(one) {
  const words = state.q.toLowerCase().split(/\s+/).filter(Boolean);
  return words.every((word) => one.sought.includes(word))
    && (!state.status.length || state.status.includes(one.status))
    && (!state.decision || (one.decision || NONE) === state.decision)
    && (!state.mapper || (one.mapper || NONE) === state.mapper)
    && (!state.language || languagesOf(one).includes(state.language));
}

function languagesOf(one) {
  return one.languages ? [...one.languages.first.map(([code]) => code), ...(one.rare || [])].map(languageName) : [NONE];
}

/* By a column, those where it is unknown last in both directions, equal ones by name. */
function sorted(sets) {
  const down = state.sort.startsWith("-");
  const { of } = BY_KEY.get(state.sort.replace(/^-/, ""));
  const keyed = sets.map((one) => [of(one), one]);
  const known = keyed.filter(([key]) => key !== undefined && key !== null);
  const unknown = keyed.filter(([key]) => key === undefined || key === null);
  const compare = (a, b) => (typeof a === "number" ? a - b : order.compare(a, b));
  known.sort(([a, one], [b, other]) => (down ? compare(b, a) : compare(a, b)) || one.place_in_lake - other.place_in_lake);
  return [...known, ...unknown].map(([, one]) => one);
}

/* --- the table */

let drawn = 0;

function rowOf(one) {
  const cells = COLUMNS.map((column) => el(column.key === "name" ? "th" : "td", {
    class: "c-" + column.key + " " + column.kind, scope: column.key === "name" ? "row" : null,
  }, column.cell(one)));
  return el("tr", { "data-set": one.place_in_lake }, cells);
}

/* The next slice of rows: a table of thousands is drawn as far as somebody looks. */
function drawMore(rows = SLICE) {
  const part = document.createDocumentFragment();
  shown.slice(drawn, drawn + rows).forEach((one) => part.append(rowOf(one)));
  drawn = Math.min(shown.length, drawn + rows);
  $("sets").tBodies[0].append(part);
}

/* As many rows as are seen, and half as many below them. */
function fill() {
  const frame = $("frame");
  $("wider").hidden = frame.scrollWidth <= frame.clientWidth;
  while (drawn < shown.length && frame.scrollTop + 1.5 * frame.clientHeight > frame.scrollHeight) drawMore();
}

function drawTable() {
  shown = sorted(SETS.filter(fits));
  $("sets").tBodies[0].replaceChildren();
  $("sets").setAttribute("aria-rowcount", shown.length + 1);
  drawn = 0;
  drawMore();
  $("frame").scrollTop = 0;
  fill();
  for (const head of $("sets").tHead.rows[0].cells) {
    const key = head.dataset.key;
    const way = state.sort === key ? "ascending" : state.sort === "-" + key ? "descending" : "none";
    head.setAttribute("aria-sort", way);
  }
  $("shown").replaceChildren(shownText());
}

function shownText() {
  const sum = (of) => shown.reduce((all, one) => all + (one.status === "converted" && of(one) || 0), 0);
  const rows = sum((one) => one.rows && one.rows.read);
  const which = shown.length === SETS.length ? many(SETS.length, "data set") : count(shown.length) + " of " + many(SETS.length, "data set");
  const tokens = sum((one) => one.tokens);
  return [which, many(rows, "row"), many(sum((one) => one.records), "record"), tokens ? many(tokens, "token") : ""].filter(Boolean).join(" · ");
}

function headOf(column) {
  const button = el("button", { type: "button", title: column.title }, column.label);
  button.addEventListener("click", () => {
    const ways = column.kind === "number" ? ["-" + column.key, column.key] : [column.key, "-" + column.key];
    show({ sort: state.sort === ways[0] ? ways[1] : ways[0] });
  });
  return el("th", { scope: "col", class: "c-" + column.key + " " + column.kind, "data-key": column.key, "aria-sort": "none" }, button);
}

function makeTable() {
  $("sets").tHead.append(el("tr", {}, COLUMNS.map(headOf)));
  $("frame").addEventListener("scroll", fill, { passive: true });
  addEventListener("resize", fill);
  $("sets").tBodies[0].addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (!row || event.ctrlKey || event.metaKey || event.shiftKey || String(getSelection())) return;
    event.preventDefault();
    show({ set: SETS[Number(row.dataset.set)].name }, true);
  });
  $("sets").tBodies[0].addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!next || !row) return;
    event.preventDefault();
    if (!row[next] && next === "nextElementSibling" && drawn < shown.length) drawMore();
    if (row[next]) row[next].querySelector("a").focus();
  });
  addEventListener("beforeprint", () => drawMore(shown.length));
}

/* --- the filters */

function choices(name, label, values) {
  const select = el("select", { name, "aria-label": label }, el("option", { value: "" }, label + ": all"),
    values.map((value) => el("option", { value }, plain(value))));
  select.addEventListener("change", () => show({ [name]: select.value }));
  return select;
}

/* Values to choose from: those that most data sets have, for a lake whose data hold anything. */
function distinct(of) {
  const times = new Map();
  for (const value of SETS.flatMap(of)) times.set(value, (times.get(value) || 0) + 1);
  const all = [...times.keys()].sort((a, b) => times.get(b) - times.get(a)).slice(0, CHOICES);
  return all.sort((a, b) => (a === NONE) - (b === NONE) || order.compare(a, b));
}

function makeFilters() {
  const field = el("input", { type: "search", name: "q", placeholder: "Name, place or reason", "aria-label": "Text in name, place or reason", autocomplete: "off", spellcheck: "false" });
  field.addEventListener("input", () => show({ q: field.value }));
  const reset = el("button", { type: "button", id: "reset" }, "Show all");
  reset.addEventListener("click", () => show({ ...NOTHING, sort: state.sort }));
  $("filters").append(field,
    choices("decision", "Decision", distinct((one) => [one.decision || NONE])),
    choices("language", "Language", distinct(languagesOf)),
    choices("mapper", "Mapper", distinct((one) => [one.mapper || NONE])), reset);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    if (event.key === "/" && !$("set").open && event.target !== field) {
      event.preventDefault();
      field.focus();
    }
  });
}

function drawFilters() {
  for (const name of ["q", "decision", "language", "mapper"]) {
    const field = $("filters").elements[name];
    if (field.value !== state[name]) field.value = state[name];
  }
  for (const chip of document.querySelectorAll("#head [data-status]")) {
    chip.setAttribute("aria-pressed", String(state.status.includes(chip.dataset.status)));
  }
  $("reset").hidden = !(state.q || state.status.length || state.decision || state.language || state.mapper);
}

/* --- the head */

function chip([status, number]) {
  const button = el("button", { type: "button", class: "status s-" + status, "data-status": status, title: lake.statuses[status], "aria-pressed": "false" },
    statusText(status), " ", el("b", {}, count(number)));
  button.addEventListener("click", () => {
    const rest = state.status.filter((one) => one !== status);
    show({ status: rest.length < state.status.length ? rest : [...rest, status] });
  });
  return button;
}

function equation() {
  const { rows, adds_up: right } = lake.totals;
  const part = (name, kind) => el("span", { class: "term" }, el("b", {}, count(rows[name])), el("span", {}, el("i", { class: kind }), name));
  const sign = (mark) => el("span", { class: "sign" }, mark);
  return el("div", { class: "card", id: "equation" },
    el("div", { class: "terms" },
      el("span", { class: "term" }, el("b", {}, count(rows.read)), el("span", {}, "rows read")), sign("="),
      part("converted", "blue"), sign("+"), part("rejected", "red"), sign("+"), part("filtered", "grey"),
      el("span", { class: right ? "right" : "wrong" }, right ? "✓ adds up" : "✗ does not add up")),
    bar([["blue", rows.converted, "converted"], ["red", rows.rejected, "rejected"], ["grey", rows.filtered, "filtered"]], rows.read, "rows by what became of them"));
}

/* A number, what it is, and what more there is to say of it. */
function tile(value, what, more = null) {
  const shown = typeof value === "number" ? el("b", { title: count(value) }, brief(value)) : el("b", {}, value);
  return el("div", { class: "tile" }, shown, el("span", {}, what), more ? el("span", {}, more) : null);
}

function tiles() {
  const sums = lake.totals;
  const repeats = sums.within + sums.across;
  const share = sums.records ? ", " + percent(repeats / sums.records) + " of the records" : "";
  return el("div", { class: "tiles" },
    tile(sums.records, "records of " + many(sums.statuses.converted || 0, "data set")),
    tile(sums.tokens ?? UNKNOWN, sums.tokens === null ? "tokens: no tokenizer was given" : "tokens of " + many(sums.tokenized, "data set")),
    tile(sums.characters, "characters"),
    tile(repeats, "duplicates" + share, repeats ? brief(sums.within) + " inside their data set, " + brief(sums.across) + " in another one" : null),
    costTile(sums.spent));
}

function costTile(spent) {
  if (!spent.calls) return tile("$0", "no model was asked");
  const price = spent.unpriced === 0 ? dollars(spent.cost) : spent.cost ? "≥ " + dollars(spent.cost) : "unpriced";
  const unpriced = spent.cost && spent.unpriced ? many(spent.unpriced, "data set") + " by a model whose price is not known" : null;
  return tile(price, "for " + many(spent.calls, "call") + " of a model", unpriced);
}

function languageTile(languages) {
  if (!languages.first.length) return null;
  const whole = total(languages);
  const key = languages.first.slice(0, 10).map(([code, number]) => el("span", {}, el("i", { class: colourOf(code) }), text(languageName(code)), " " + percent(number / whole)));
  return el("div", { class: "tile" }, el("h2", {}, "Languages of the records"), languageBar(languages), el("div", { class: "key" }, key));
}

function splitTile(splits) {
  const rows = splits.map((one) => [one.name, one.records, one.duplicates, one.tokens]);
  return rows.length ? el("div", { class: "tile" }, el("h2", {}, "Corpus"), splitTable(rows)) : null;
}

function told() {
  const { files, left_out: leftOut, dedup, split } = lake.told;
  const parts = [many(SETS.length, "data set")];
  if (files !== undefined) parts.push(many(files, "file") + " found");
  if (leftOut !== undefined) parts.push(count(leftOut) + " left out");
  if (lake.totals.bytes) parts.push(bytes(lake.totals.bytes) + " read");
  if (dedup) parts.push("duplicates left out of the corpus: " + dedup);
  if (split) parts.push("split " + split.map((one) => one.name + " " + one.fraction).join(", "));
  return plain(parts.join(" · "));
}

/* Why files were left out, the first of each reason. */
function leftOutReasons(reasons) {
  if (!reasons || !reasons.length) return null;
  const named = (names) => names.map((name, place) => [place ? ", " : " ", text(name, "code")]);
  const rest = (number) => (number > 0 ? " and " + count(number) + " more" : null);
  return el("details", { class: "left-out" }, el("summary", {}, "Files left out, and why"),
    el("ul", { class: "files" }, reasons.map(([why, number, names]) => el("li", {}, text(why), " (" + count(number) + "):", named(names), rest(number - names.length)))),
    el("p", { class: "note-line" }, "All of them stand in ", fileLink("left_out.jsonl"), "."));
}

function makeHead() {
  colourLanguages(lake.totals.languages);
  filled($("head"), {}, [text(lake.title, "h1"), el("p", { class: "told" }, told()), leftOutReasons(lake.told.reasons), equation(), tiles(),
    el("div", { class: "tiles wide" }, languageTile(lake.totals.languages), splitTile(lake.totals.splits)),
    el("div", { class: "chips", role: "group", "aria-label": "Data sets by status" }, Object.entries(lake.totals.statuses).map(chip))]);
}

/* --- all of it */

function draw(before = null) {
  const { set, ...view } = state;
  const { set: setBefore, ...viewBefore } = before || { set: "" };
  if (!before || JSON.stringify(view) !== JSON.stringify(viewBefore)) {
    drawFilters();
    drawTable();
  }
  if (set !== setBefore) drawSet(set ? BY_NAME.get(set) : null);
}

makeHead();
makeFilters();
makeTable();
makeSet();
state = viewOf(location.hash);
draw();
addEventListener("popstate", follow);
addEventListener("hashchange", follow);
