/* The tree of fields: how often each is filled, what it holds, its colour, what it is used as. */
import { bar, button, h, heading, name, number, plain, put, share, soft, text } from "./dom.js";
import { t } from "./words.js";

const COLOURS = 10;

/* The class of a field's colour; "" where it has none. */
export function colourClass(colour) {
  return colour === null || colour === undefined ? "" : `c c${colour % COLOURS}`;
}

export const targetLabel = (target) => t(`target ${target}`, {}, target);

export function drawFields(panel, page) {
  const { view } = page;
  const wanted = page.filter.toLowerCase();
  const parents = new Map(view.fields.map((one) => [one.path, one.parent]));
  const inner = new Set(parents.values());
  const folded = (path) => path && (page.closed.has(path) || folded(parents.get(path)));
  const shown = view.fields.filter((field) =>
    wanted ? field.path.toLowerCase().includes(wanted) : !folded(field.parent));
  if (!shown.some((one) => one.path === page.selected)) page.selected = shown[0]?.path;
  const filter = h("input", {
    type: "search", value: page.filter, placeholder: t("filter_fields"), "data-key": "filter",
    "aria-label": t("filter_fields"), oninput: () => {
      page.filter = filter.value;
      drawFields(panel, page);
      panel.querySelector("input").focus();
    },
  });
  const top = panel.querySelector(".tree")?.scrollTop ?? 0;
  const tree = h("div", { class: "tree", role: "tree", "aria-label": t("fields"),
      onkeydown: (event) => move(event, page, panel) },
    shown.map((field) => treeItem(field, inner.has(field.path), page, panel)));
  put(panel, heading(t("fields"), soft(number(view.fields.length))),
    view.fields.length > 12 && filter, tree, view.fields_more > 0 && h("p", { class: "soft" },
      t("and_more", { n: number(view.fields_more) })),
    h("div", { class: "about" }));
  tree.scrollTop = top;
  drawAbout(panel, page);
}

function treeItem(field, hasChildren, page, panel) {
  const { path, label, types, rows, of, colour, depth } = field;
  const open = !page.closed.has(path);
  const used = field.targets.map(targetLabel).join(", ");
  const said = [label, types.join(" | "), share(rows, of), used && t("used_as", { what: used })];
  const choose = () => {
    page.selected = path;
    for (const one of panel.querySelectorAll("[role=treeitem]")) {
      one.tabIndex = one.dataset.field === path ? 0 : -1;
      one.setAttribute("aria-selected", String(one.dataset.field === path));
    }
    drawAbout(panel, page);
  };
  const toggle = () => {
    if (!page.closed.delete(path)) page.closed.add(path);
    drawFields(panel, page);
    panel.querySelector("[role=treeitem][tabindex='0']")?.focus();
  };
  const twist = { class: "twist", tabindex: "-1" };
  twist["aria-label"] = `${open ? t("fold") : t("unfold")}: ${plain(label, 60)}`;
  const often = field.values.some(([, count]) => count > 1) ? field.values.slice(0, 8) : [];
  const values = often.map(([value, count]) => facet(page, field, value, count, "-1"));
  const item = h("div", {
      role: "treeitem", class: `field ${colourClass(colour)} ${used ? "used" : ""}`,
      tabindex: page.selected === path ? 0 : -1, "aria-selected": String(page.selected === path),
      "aria-level": depth + 1, "aria-expanded": hasChildren ? String(open) : null,
      "aria-label": said.filter(Boolean).map((one) => plain(one, 80)).join(", "),
      "data-field": path, "data-key": `field ${path}`, draggable: "true", onfocusin: choose,
      ondragstart: (event) => {
        event.dataTransfer.setData("text/plain", path);
        setTimeout(() => page.unfoldTargets()); // after the picture of the drag is taken
      },
    },
    hasChildren ? button(open ? "▾" : "▸", toggle, twist) : h("span", { class: "twist" }),
    h("span", { class: "swatch", "aria-hidden": "true" }), name(label),
    h("span", { class: "types" }, text(types.join(" | "), 40)),
    h("span", { class: "fill", title: `${number(rows)}/${number(of)}` }, bar(rows, of),
      share(rows, of)),
    useSelect(field, page), h("span", { class: "seen" },
      values.length ? values : name(field.examples[0] ?? field.values[0]?.[0])));
  item.style.setProperty("--depth", Math.min(depth, 8));
  return item;
}

/* A value with its count: a control that shows the rows that hold it, or all of them again. */
function facet(page, { path, label }, value, count, tabindex = "0") {
  const on = page.wanted.field === path && page.wanted.value === value;
  return button([plain(value, 40), " ", h("b", {}, number(count))], (event) => {
    event.stopPropagation();
    page.filterBy({ field: path, value });
  }, { class: "facet", tabindex, "aria-pressed": String(on), "data-key": `facet ${tabindex} ${path} ${value}`,
    title: t("rows_with", { what: `${plain(label, 40)} = ${plain(value, 80)}` }) });
}

/* The select that does what dragging does. Chosen with the keyboard, it waits for Enter or Tab. */
function useSelect(field, page) {
  const others = field.uses.filter((one) => !field.targets.includes(one.target));
  const adds = others.map((one) => ({ ...one, line: one.add }));
  const group = (words, sign, made) => made.length > 0 && h("optgroup", { label: words },
    made.map((one) => h("option", { value: one.line }, sign + plain(targetLabel(one.target), 60))));
  const now = field.targets.map(targetLabel).join(", ");
  if (!field.uses.length) return h("span", { class: "use soft" }, plain(now, 60));
  let keyed = false;
  const apply = () => {
    const line = control.value;
    control.selectedIndex = 0; // it is sent once
    if (line) page.say(line);
  };
  const control = h("select", {
      class: "use", "aria-label": `${t("use_as")}: ${plain(field.label, 60)}`,
      "data-key": `use ${field.path}`, onpointerdown: () => (keyed = false), onkeydown: (event) => {
        event.stopPropagation();
        if (event.key === "Escape") {
          control.selectedIndex = 0;
          control.closest("[role=treeitem]").focus();
        } else if (event.key === "Enter" && control.value) {
          event.preventDefault();
          apply();
        } else if (event.key !== "Tab") keyed = true;
      },
      onchange: () => keyed || apply(), onblur: apply,
    },
    h("option", { value: "", selected: true }, now ? plain(now, 60) : "–"),
    group(t("use_as"), "", others), group(t("add_to"), "+ ", adds.filter((one) => one.line)));
  return control;
}

/* What the selected field holds. */
function drawAbout(panel, page) {
  const field = page.view.fields.find((one) => one.path === page.selected);
  if (!field) return;
  const told = field.values.length
    ? field.values.map(([value, count], place) => [
      keepBox(page, field, value, field.choices?.values[place]), facet(page, field, value, count),
      onlyButton(page, value, field.choices?.values[place])])
    : field.examples.map((one) => text(one, 160));
  const facts = `${plain(field.types.join(" | "), 80)} · ${number(field.rows)}/${number(field.of)}`;
  put(panel.querySelector(".about"), h("h3", {}, name(field.path)),
    h("p", { class: "soft" }, facts, " ", t("rows"), field.choices
      && ` · ${t(`ticked ${field.choices.what}`)}`),
    h("ul", {}, told.map((one) => h("li", {}, one))));
}

/* A tick box: rows or messages with the value stay, or are left out. */
function keepBox(page, { path, choices }, value, choice) {
  return choice && h("input", { type: "checkbox", checked: choice.kept,
    disabled: !choice.lines.length, "data-key": `keep ${path} ${value}`,
    "aria-label": `${t(`keep ${choices.what}`)}: ${plain(value, 60)}`,
    onchange: () => page.sayAll(choice.lines) });
}

function onlyButton(page, value, choice) {
  return choice?.only.length > 0 && button(t("only"), () => page.sayAll(choice.only),
    { class: "quiet", "aria-label": `${t("only")}: ${plain(value, 60)}` });
}

/* Arrows walk the tree, left and right fold and unfold, Enter goes to the select of the field. */
function move(event, page, panel) {
  const items = [...panel.querySelectorAll("[role=treeitem]")];
  const item = event.target;
  const at = items.indexOf(item);
  if (at < 0) return;
  const parent = page.view.fields.find((one) => one.path === item.dataset.field)?.parent;
  const open = item.getAttribute("aria-expanded");
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  const folds = { ArrowRight: "false", ArrowLeft: "true" }[event.key];
  if (to !== undefined) items[to]?.focus();
  else if (event.key === "Enter") item.querySelector("select")?.focus();
  else if (folds && open === folds) item.querySelector("button").click();
  else if (event.key === "ArrowRight" && open) items[at + 1]?.focus();
  else if (event.key === "ArrowLeft") items.find((one) => one.dataset.field === parent)?.focus();
  else return;
  event.preventDefault();
}
