/* One data set, opened: why it is so, its figures, samples of its records, its mapping. */

let parsed = null;

/* Details are read when the first data set is opened: they are most of the page. */
function detailsOf(one) {
  if (parsed === null) parsed = JSON.parse(document.getElementById("details").textContent);
  return parsed[one.place_in_lake];
}

function section(title, ...parts) {
  const kept = parts.flat().filter((part) => part !== null && part !== undefined);
  return kept.length ? el("section", {}, el("h3", {}, title), kept) : null;
}

function pairs(entries) {
  const told = entries.filter(([, value]) => value !== undefined && value !== null && value !== UNKNOWN && value !== "");
  return told.length ? el("dl", {}, told.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value instanceof Node ? value : text(value))])) : null;
}

/* --- what became of it */

/* What to do; the command in it, if there is one, on a line of its own. */
function hintOf(one) {
  if (!one.hint) return null;
  const found = /(^|[:;,] )(ingot [a-z][^()]*?)( \(.*)?$/s.exec(one.hint);
  const before = found ? one.hint.slice(0, found.index) + found[1] : one.hint;
  return el("div", { class: "hint" }, before.trim() ? text(before.trim(), "p") : null,
    found ? text(found[2], "code", { class: "command", dir: "ltr" }) : null,
    found && found[3] ? text(found[3].trim(), "p") : null);
}

function proposal(one) {
  return pairs([
    ["decision", one.decision], ["mapper", one.mapper], ["model", one.model],
    ["confidence", percent(one.confidence)], ["coverage", one.coverage === undefined ? "" : percent(one.coverage) + " of the sampled records without an error"],
    ["asked", one.spent && one.spent.calls ? many(one.spent.calls, "call") + ", " + count(one.spent.tokens_in) + " tokens in, " + count(one.spent.tokens_out) + " out, " + costCell(one) : ""],
  ]);
}

function figures(one) {
  const { rows } = one;
  return pairs([
    ["files", one.files ? many(one.files, "file") + (one.format ? ", " + one.format : "") + (one.bytes ? ", " + bytes(one.bytes) : "") : one.format],
    ["rows", rows ? count(rows.read) + " read = " + count(rows.converted) + " converted + " + count(rows.rejected) + " rejected + " + count(rows.filtered) + " filtered" : ""],
    ["records", one.records === undefined ? "" : count(one.records) + (one.characters ? ", " + many(one.characters, "character") : "")],
    ["tokens", one.tokens === undefined ? "" : count(one.tokens) + (one.sequences ? " in " + many(one.sequences, "sequence") : "")],
    ["duplicates", one.records ? count(one.within || 0) + " within, " + count(one.across || 0) + " of earlier data sets" : ""],
  ]);
}

function splitTable(splits) {
  if (!splits) return null;
  const tokens = splits.some(([, , , number]) => number !== null);
  const head = ["split", "records", "duplicates left out", ...(tokens ? ["tokens"] : [])];
  return el("table", { class: "small" }, el("thead", {}, el("tr", {}, head.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, splits.map(([name, ...numbers]) => el("tr", {}, el("th", { scope: "row" }, text(name)),
      numbers.slice(0, tokens ? 3 : 2).map((number) => el("td", {}, count(number)))))));
}

/* --- counts by name */

function counted(counts, whole, kind, shownName = (name) => text(name)) {
  if (!counts) return null;
  const rows = counts.first.map(([name, number]) => el("li", {}, el("span", { class: "what" }, shownName(name)),
    bar([[kind(name), number, count(number)]], whole, percent(number / whole)), el("span", { class: "number" }, count(number))));
  if (counts.others) rows.push(el("li", { class: "more" }, many(counts.others, "further one") + ": " + count(counts.count)));
  return el("ul", { class: "counted" }, rows);
}

function overlapLink(name) {
  return BY_NAME.has(name) ? text(name, "a", { href: hash({ ...state, set: name }) }) : text(name);
}

function languages(one, details) {
  const name = (code) => text(languageName(code));
  return [
    one.languages ? counted(one.languages, total(one.languages), colourOf, name) : null,
    details.heard ? el("p", { class: "note-line" }, "recognized in a sample: " + details.heard.first.map(([code, number]) => (code === "" ? "none" : plain(code)) + " " + count(number)).join(", ")) : null,
  ];
}

function lengths(one) {
  if (!one.lengths) return null;
  const all = bins(one.lengths);
  return [histogram(one.lengths, 72, 22),
    el("p", { class: "note-line" }, "from " + count(all[0][0]) + " characters to " + atMost(all[all.length - 1][0]) + ", each bin twice as long as the one before; half of the records have " + atMost(middle(one.lengths)))];
}

/* --- records */

function turn(message) {
  const trained = message.loss_mask === true;
  const told = message.loss_mask === undefined ? "" : trained ? "trained on" : "not trained on";
  const parts = [el("header", {}, text(message.role ?? "?", "b"), told ? el("span", {}, told) : null)];
  const rest = Object.entries(message).filter(([name, value]) => !["role", "content", "loss_mask"].includes(name) && value !== null);
  if (message.content !== null && message.content !== undefined) parts.push(said(message.content));
  for (const [name, value] of rest) parts.push(el("p", { class: "note-line" }, plain(name)), said(value));
  return el("li", { class: "turn r-" + (["user", "assistant", "system", "tool"].includes(message.role) ? message.role : "other") + (trained ? " trained" : "") }, parts);
}

function said(value) {
  return typeof value === "string" ? text(value, "div", { class: "said" }) : text(JSON.stringify(value, null, 2), "pre", { class: "said", dir: "ltr" });
}

function conversation(sample) {
  const turns = [];
  if (sample.system) turns.push(turn({ role: "system", content: sample.system }));
  for (const message of sample.messages || []) turns.push(turn(message || {}));
  if (sample.messages_left_out) turns.push(el("li", { class: "more" }, "… " + many(sample.messages_left_out, "further message")));
  return el("ol", { class: "turns" }, turns);
}

function sampleOf(sample) {
  const known = ["text", "messages", "messages_left_out", "system", "meta"];
  const meta = Object.entries(sample.meta || {}).filter(([, value]) => value !== null);
  const rest = Object.entries(sample).filter(([name, value]) => !known.includes(name) && value !== null);
  return el("article", { class: "sample" },
    sample.text !== undefined ? said(sample.text ?? "") : null,
    sample.messages !== undefined ? conversation(sample) : null,
    rest.map(([name, value]) => el("details", {}, el("summary", {}, plain(name)), said(value))),
    meta.length ? el("p", { class: "meta" }, meta.map(([name, value]) => el("span", {}, text(name, "i"), " ", text(typeof value === "string" ? value : JSON.stringify(value))))) : null);
}

function samples(details) {
  const cut = details.samples_cut ? el("p", { class: "note-line" }, many(details.samples_cut, "sample") + " left out or shortened for want of room; the records lie in the result") : null;
  return [...(details.samples || []).map(sampleOf), cut];
}

/* --- beside it */

function card(told) {
  if (!told) return null;
  return pairs(Object.entries(told).map(([name, value]) => [plain(name), Array.isArray(value) ? value.join(", ") : typeof value === "object" && value !== null ? JSON.stringify(value) : String(value)]));
}

function leftOut(details) {
  if (!details.left_out_count && !details.left_out) return null;
  const files = details.left_out || [];
  const more = (details.left_out_count || files.length) - files.length;
  return el("ul", { class: "files" }, files.map(([name, why]) => el("li", {}, text(name, "code"), " ", text(why))),
    more > 0 ? el("li", { class: "more" }, many(more, "further file")) : null);
}

/* A link to a file beside the page; one that lies elsewhere, or whose name no address can hold
   (half a surrogate pair), is only named. */
function fileLink(path) {
  if (!path) return "";
  if (path.startsWith("/") || path.includes("://") || /[\ud800-\udfff]/u.test(path)) return text(path, "code");
  const href = "./" + path.split("/").map(encodeURIComponent).join("/");
  return text(path, "a", { href });
}

function mapping(details) {
  if (details.mapping_cut) return el("p", { class: "note-line" }, "too long for this page");
  return details.mapping ? text(details.mapping, "pre", { class: "json", dir: "ltr", tabindex: "0" }) : null;
}

/* --- the whole */

function stepTo(steps) {
  const next = shown[shown.indexOf(BY_NAME.get(state.set)) + steps];
  if (next) show({ set: next.name });
}

function bars(one, place) {
  const button = (label, mark, disabled, act) => {
    const made = el("button", { type: "button", "aria-label": label, title: label, disabled, autofocus: label === "close" }, mark);
    made.addEventListener("click", act);
    return made;
  };
  return el("nav", {},
    button("previous data set", "‹", place <= 0, () => stepTo(-1)),
    button("next data set", "›", place < 0 || place >= shown.length - 1, () => stepTo(1)),
    button("close", "✕", false, () => $("set").close()));
}

function whole(one) {
  const details = detailsOf(one);
  const read = one.rows && one.rows.read;
  return [
    el("header", { class: "set-head" }, el("div", {}, text(one.name, "h2", { id: "set-name" }), text(one.place, "p", { class: "place" })), bars(one, shown.indexOf(one))),
    el("p", {}, statusCell(one), ": ", lake.statuses[one.status]),
    one.why ? text(one.why, "p", { class: "why" }) : null, hintOf(one),
    el("div", { class: "columns" },
      section("Proposal", proposal(one)), section("Figures", figures(one), splitTable(details.splits)),
      section("Card", card(details.card)),
      section("Rejected", counted(one.rejects, read, () => "red")),
      section("Languages", languages(one, details)), section("Lengths", lengths(one)),
      section("Same records in", counted(details.overlaps, one.records, () => "grey", overlapLink))),
    section("Samples", samples(details)),
    section("Mapping", mapping(details)),
    section("Files", pairs([["result", fileLink(details.result)], ["mapping", fileLink(details.mapping_file)], ["shape", details.fingerprint ? text(details.fingerprint, "code") : ""]])),
    section("Left out", leftOut(details)),
  ].filter(Boolean);
}

function drawSet(one) {
  const dialog = $("set");
  if (!one) {
    if (dialog.open) dialog.close();
    return;
  }
  dialog.replaceChildren(...whole(one));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
}

function makeSet() {
  const dialog = $("set");
  dialog.addEventListener("close", () => {
    const { set } = state;
    if (set) show({ set: "" });
    const row = document.querySelector('#sets tr[data-set="' + (BY_NAME.get(set) || {}).place_in_lake + '"] a');
    if (row) row.focus({ preventScroll: true });
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  dialog.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (steps && event.target.tagName !== "PRE") stepTo(steps);
  });
}
