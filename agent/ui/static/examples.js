/* The middle of the page: where fields can be dropped, the mapping in words, rows and records. */
import { button, details, h, heading, name, number, plain, soft, text } from "./dom.js";
import { colourClass, targetLabel } from "./fields.js";
import { gateName, t } from "./words.js";
import { told } from "./reasons.js";

const lastKey = (path) => /[^.]*$/.exec(path)[0] || path;

export function drawTargets(page) {
  const { view } = page;
  const zones = (kind, targets) => targets.length > 0
    && h("div", { class: `zones ${kind}`, role: "list" }, targets.map((one) => zone(one, page)));
  const small = (target) => target.name.startsWith("meta.");
  const stated = new Set(view.lines.map(([target]) => target));
  const nothing = !["pt", "sft"].includes(view.decision);
  const known = new Set(view.fields.map((one) => one.path));
  const shown = ({ name: target, fields }) => fields.some((one) => known.has(one))
    || stated.has(target)
    || (nothing && ["text", "user", "assistant"].includes(target));
  const [held, empty] = [true, false].map((on) => view.targets.filter((one) => shown(one) === on));
  const lines = view.lines.map((line) => wordsLine(line, 300));
  const more = details(t("more_targets", { n: number(empty.length) }),
    zones("small", empty), page.allTargets, { class: "more-targets",
      ontoggle: () => (page.allTargets = more.open) });
  return [
    view.decision === "irrelevant" && h("p", { class: "none" }, t("nothing_to_convert")),
    heading(t("targets"), soft(t("drop_hint"))),
    zones("", held.filter((one) => !small(one))), zones("small", held.filter(small)),
    empty.length > 0 && more, lines.length > 0
      && details(t("in_words"), h("dl", { class: "lines" }, lines), true, { class: "mapping-words" })];
}

export function wordsLine([target, from], most) {
  return [h("dt", {}, text(target, 80)), h("dd", {}, text(told(from), most))];
}

/* Mappings beside each other: the one that is used, and others that pass on the sample. */
export function drawAlternatives(page) {
  const { others, view } = page;
  if (!others) return null;
  const now = { ...view, why: view.reason, rows: view.sample?.ok };
  const close = () => {
    page.others = null;
    page.draw(false);
  };
  const column = ({ decision, confidence, why, rows, lines }, number_) => h(
    "li", { class: number_ ? "" : "now" }, h("div", { class: "head" },
      h("span", { class: "badge" }, t(`decision ${decision}`, {}, plain(decision, 20))),
      number_ ? button(t("take"), () => page.say(`take ${number_}`), {
        class: "primary", "aria-label": `${t("take")} ${number_}: ${plain(why, 60)}`,
        "data-key": `take ${number_}` }) : soft(t("used_now"))),
    h("p", {}, soft(t("confidence")), " ", h("b", {}, confidence ?? "–"), " · ",
      number(rows), "/", number(view.sample?.rows), " ", t("rows")),
    h("p", { class: "soft" }, text(told(why), 240)),
    h("dl", { class: "lines" }, lines.map((line) => wordsLine(line, 160))));
  return h("section", { class: "beside-each-other", "aria-label": t("alternatives") },
    heading(t("alternatives"), button("×", close, { class: "quiet", "aria-label": t("close") })),
    others.length ? h("ol", { class: "alternatives" }, column(now, 0),
      others.map((one, place) => column(one, place + 1)))
      : h("p", { class: "none" }, t("no_alternatives")));
}

function zone({ name: target, clear: line, joins, fields }, page) {
  const { view } = page;
  const held = fields.map((path) => view.fields.find((one) => one.path === path)).filter(Boolean);
  const fixed = view.lines.find(([one]) => one === target)?.[1]; // a text, or what has no field
  const short = (path) => held.every((one) => one.path === path || lastKey(one.path) !== lastKey(path));
  const label = targetLabel(target);
  const clear = held.length > 0 && line;
  const words = `${t("clear")}: ${plain(label, 40)}`;
  const adds = held.length > 0 && joins;
  const over = (event, on) => {
    event.preventDefault();
    event.currentTarget.classList.toggle("over", on);
  };
  const drop = (event) => {
    over(event, false);
    const path = event.dataTransfer.getData("text/plain");
    const field = view.fields.find((one) => one.path === path);
    const use = field?.uses.find((one) => one.target === target);
    if (!use) page.refuse(t("cannot_use"));
    else page.say((event.target.closest(".add") && use.add) || use.line);
  };
  return h("div", {
      class: `zone ${held.length ? "held" : ""}`, role: "listitem", "data-target": target,
      ondragover: (event) => over(event, true), ondragleave: (event) => over(event, false),
      ondrop: drop,
    },
    h("span", { class: "zone-name" }, plain(label, 40)),
    h("span", { class: "chips" }, held.length
      ? held.map((one) => chip(one, short(one.path))) : soft(fixed ? text(told(fixed), 60) : "–")),
    clear && button("×", () => page.say(clear), { class: "quiet clear", "aria-label": words }),
    adds && h("span", { class: "add" }, `+ ${t("add")}`));
}

function chip({ path, colour }, short) {
  const words = name(short && path.length > 12 ? lastKey(path) : path, { title: plain(path) });
  return h("span", { class: `chip ${colourClass(colour)}`, "data-field": path }, words);
}

export function drawExamples(page) {
  const { examples } = page.view;
  const example = examples[page.example];
  if (!example) {
    const none = t(page.isFiltered() ? "no_rows" : "no_examples");
    return [heading(t("examples")), filterLine(page), h("p", { class: "none" }, none)];
  }
  const turn = (sign, by, words, key, end) => button(sign, () => page.turn(by), {
    "aria-label": `${words} (${t("examples")})`, title: key, disabled: end,
      "data-key": `turn ${key}`,
  });
  const place = t("example_of", { i: number(page.example + 1), n: number(examples.length) });
  const records = example.records.map((one) => h("div", { class: "record" }, nodeList(one, true)));
  return [
    heading(t("examples"), h("span", { class: "pager" },
      turn("‹", -1, t("earlier"), "[", page.example === 0), soft(place),
      turn("›", 1, t("later"), "]", page.example + 1 >= examples.length))),
    filterLine(page),
    h("div", { class: "pair" }, h("div", {}, h("h3", {}, t("row")), nodeList(example.row)),
      h("div", {}, h("h3", {}, t("record"), records.length > 1 && ` × ${number(records.length)}`),
        records.length ? records : h("p", { class: "none" }, t("no_record"), example.outcome
          && ` (${outcomeName(example.outcome)})`),
        example.more && h("p", { class: "soft" }, t("first_record")))),
    example.hidden && h("p", { class: "soft" }, t("hidden_here"))];
}

const outcomeName = (outcome) => (outcome === "record" ? t("with_record")
  : plain(gateName(outcome.replaceAll("_", " ")), 60));

/* Which rows are shown, what becomes of them, and how to see others. */
function filterLine(page) {
  const { rows: { of, found, outcomes } } = page.view;
  const { field, value, outcome } = page.wanted;
  const what = [field && `${plain(field, 80)} = ${plain(value, 80)}`, outcome && outcomeName(outcome)];
  const said = t("rows_found", { n: number(found), of: number(of) });
  const clear = () => page.filterBy({ field: "", value: "", outcome: "" });
  return h("p", { class: "filter", role: "status" },
    h("span", {}, said, page.isFiltered() && h("b", {}, `: ${what.filter(Boolean).join(", ")}`)),
    page.isFiltered() && button(t("show_all"), clear, { class: "quiet", "data-key": "show all" }),
    outcomes.length > 1 || outcome ? outcomes.map(([one, count]) =>
      button([outcomeName(one), " ", h("b", {}, number(count))],
        () => page.filterBy({ outcome: one }),
        { class: "facet", "aria-pressed": String(one === outcome), "data-key": `outcome ${one}` }))
      : null);
}

/* The lines of a row or a record; a coloured text of a record names its field. */
export function nodeList(nodes, named = false) {
  return h("div", { class: "nodes" }, nodes.map((node) => {
    const spans = node.spans.map((span) => h(
      "span", { class: `span ${colourClass(span.colour)}`, "data-field": span.field,
        title: span.field ? plain(span.field) : null },
      named && span.field && h("span", { class: "tag" }, plain(lastKey(span.field), 60)),
        text(span.text, 500)));
    const colour = named ? null : node.spans.find((one) => one.colour !== null)?.colour;
    const line = h("div", { class: "node", "data-field": node.path },
      h("span", { class: `node-name ${colourClass(colour)}` }, name(node.label)),
      h("span", { class: "node-text" }, spans));
    line.style.setProperty("--depth", Math.min(node.depth, 10));
    return line;
  }));
}
