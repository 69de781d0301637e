/* The middle of the page: where fields can be dropped, the mapping in words, rows and records. */
import { button, details, h, heading, name, number, plain, soft, text } from "./dom.js";
import { colourClass, targetLabel } from "./fields.js";
import { t } from "./words.js";

const lastKey = (path) => /[^.]*$/.exec(path)[0] || path;

export function drawTargets(page) {
  const { view } = page;
  const zones = (kind, targets) =>
    h("div", { class: `zones ${kind}`, role: "list" }, targets.map((one) => zone(one, page)));
  const meta = (target) => target.name.startsWith("meta.");
  const lines = view.lines.map((line) => wordsLine(line, 300));
  return [
    heading(t("targets"), soft(t("drop_hint"))),
    zones("", view.targets.filter((one) => !meta(one))), zones("small", view.targets.filter(meta)),
    details(t("in_words"), h("dl", { class: "lines" }, lines), true, { class: "mapping-words" })];
}

export function wordsLine([target, from], most) {
  return [h("dt", {}, text(target, 80)), h("dd", {}, text(from, most))];
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
      ? held.map((one) => chip(one, short(one.path))) : soft(fixed ? text(fixed, 60) : "–")),
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
  if (!example) return [heading(t("examples")), h("p", { class: "none" }, t("no_examples"))];
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
    h("div", { class: "pair" }, h("div", {}, h("h3", {}, t("row")), nodeList(example.row)),
      h("div", {}, h("h3", {}, t("record"), records.length > 1 && ` × ${number(records.length)}`),
        records.length ? records : h("p", { class: "none" }, t("no_record")),
        example.more && h("p", { class: "soft" }, t("first_record")))),
    example.hidden && h("p", { class: "soft" }, t("hidden_here"))];
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
