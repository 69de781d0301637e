/* What a changed mapping means and does to rows: the document of schemas/review.schema.json. */
import { pathInput } from "./browse.js";
import { announce, h, heading, name, number, problem, put, share, table, text } from "./dom.js";
import { wordsLine } from "./examples.js";
import { post } from "./requests.js";
import { t } from "./words.js";

const ICONS = { pass: "✓", warn: "!", block: "✕" };

export async function show(page, _rest, query) {
  const mapping = (words, value = "") => pathInput(words, ["mapping", "file"], value,
    { required: true });
  const older = mapping(t("old_mapping"), query.old);
  const newer = mapping(t("new_mapping"), query.new);
  const data = pathInput(t("data_optional"), ["file", "folder"], query.source ?? "");
  const found = h("div", {});
  const send = h("button", { class: "primary" }, t("compare"));
  const submit = async (event) => {
    event.preventDefault();
    send.disabled = true;
    put(found, h("p", { class: "soft", role: "status" }, t("loading")));
    const [old, now, source] = [older, newer, data].map((one) => one.input.value.trim());
    try {
      const review = await post("/api/review", { old, new: now, source: source || null });
      const typed = (path) => [old, now, source].find((one) => one && path.endsWith(`/${one}`));
      put(found, drawReview(review, (path) => typed(path) ?? path));
      announce(`${t("verdict")}: ${t(`level ${review.verdict}`)}`);
    } catch (error) {
      put(found, problem(error));
    }
    send.disabled = false;
  };
  put(page, h("h1", {}, t("compare_title")), h("p", { class: "soft lead" }, t("compare_lead")),
    h("form", { class: "card form", onsubmit: submit }, older.whole, newer.whole, data.whole,
      send), found);
}

function level(value) {
  const icon = h("span", { "aria-hidden": "true" }, `${ICONS[value]} `);
  return h("span", { class: `level ${value}` }, icon, t(`level ${value}`));
}

/* `short` names a file as it was typed. */
function drawReview({ mappings }, short) {
  if (!mappings.length) return h("p", { class: "card" }, level("pass"), " ", t("no_change"));
  return mappings.map((one) => h(
    "section", { class: `card verdict ${one.verdict}`, "aria-label": t("verdict") },
    h("div", { class: "head" }, level(one.verdict),
      h("h2", {}, one.old_path && [name(short(one.old_path)), " → "], name(short(one.path))),
      one.class && h("span", { class: "badge" }, text(one.class, 20))),
    reasons(one), sampleLine(one, short), changes(one), figures(one), examples(one), drift(one)));
}

/* A table with a heading; null where it has no rows. */
function part(words, heads, rows) {
  if (!rows.length) return null;
  const whole = table(words, heads, rows);
  return [h("h3", {}, words), h("div", { class: "scroll" }, whole)];
}

function code(value) {
  return value === null ? "–" : h("code", {}, text(value, 200));
}

function reasons({ reasons: found }) {
  return h("ul", { class: "reasons" }, found.map((one) => h(
    "li", {}, level(one.level), " ", text(one.text, 500), " ",
    h("code", { class: "soft" }, text(one.rule, 60), one.line
      && ` · ${t("line_no", { n: one.line })}`))));
}

function sampleLine({ sample, same, of }, short) {
  const why = sample.why && h("p", { class: "soft" }, t("not_replayed"), " ",
    text(sample.why, 300));
  if (sample.kind === "none") return why;
  const equal = same !== null && h("b", {}, t("identical", { same: number(same), of: number(of) }));
  const place = text(short(sample.place), 120);
  return h("p", {}, t("replayed", { n: number(sample.rows) }), " ", place, ". ",
    equal);
}

function changes({ changes: found }) {
  const heads = [t("target"), t("before"), t("after"), t("class"), t("rule")];
  const kind = (one) => h("span", { class: `class ${one}` }, text(one, 20));
  return part(t("changes"), heads, found.map((one) =>
    [text(one.target, 80), code(one.old), code(one.new), kind(one.class), code(one.rule)]));
}

function figures({ old, new: now }) {
  const both = (words, shown) => [words, ...[old, now].map((side) => (side ? shown(side) : "–"))];
  const each = (key, words) => [...new Set([old, now].flatMap((side) =>
    Object.keys(side?.[key] ?? {})))]
    .map((one) => both([words, " ", text(one, 60)], (side) => number(side[key][one] ?? 0)));
  return (old || now) && part(t("figures"), ["", t("before"), t("after")], [
    both(t("rows_with_record"), (side) => `${number(side.ok_rows)}/${number(side.rows)}`),
    both(t("records"), (side) => number(side.records)), ...each("failures", t("left_out")),
    ...each("roles", t("messages_of")), both(t("characters"), (side) => number(side.chars)),
    both(t("trained_on"), (side) => share(side.trained_chars, side.chars))]);
}

function examples({ examples: found }) {
  const side = (words, lines) => h("div", { class: "version" }, h("h4", {}, words), lines === null
    ? h("p", { class: "soft" }, t("no_record"))
    : h("dl", { class: "lines" }, lines.map((one) => wordsLine(one, 600))));
  return found.length > 0 && [heading(t("examples")), found.map((one) => [
    h("h3", {}, t(`effect ${one.kind}`), " · ", text(one.place, 160)),
    h("div", { class: "pair" }, side(t("before"), one.old), side(t("after"), one.new))])];
}

function drift({ drift: found }) {
  const heads = [t("field"), t("what"), t("before"), t("after"), t("stops")];
  return part(t("drift"), heads, found.map((one) => [
    code(one.path), text(one.what, 40), text(one.before, 80), text(one.after, 80),
      t(one.stops ? "yes" : "no")]));
}
