/* Elements, texts and numbers.

Everything that a server sends is data of unknown origin: it comes into the page as text nodes and
attributes only, never as HTML, and an address is always one of this page. */

import { t } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/* Make an element: attributes (false, null: left out), listeners (onclick: ...), children. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/* Replace what an element holds. */
export function put(element, ...children) {
  element.replaceChildren();
  return filled(element, {}, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "href" && !String(value).startsWith("#")) throw new Error("foreign address");
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/* --- texts of data */

/* Marks that cannot be seen, or that turn the direction of their neighbours. They are spelled
   out. Line breaks, tabs and joiners belong to writing and stay. */
const HIDDEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u200b\\u200e\\u200f\\u202a-\\u202e" +
    "\\u2028\\u2029\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]",
  "gu",
);
const MORE = 20000;

function spelled(mark) {
  return `\\u{${mark.codePointAt(0).toString(16)}}`;
}

/* A text where only plain text can stand: titles, labels of controls. */
export function plain(value, most = 300) {
  const whole = String(value ?? "");
  return cut(whole, most).replace(HIDDEN, spelled) + (whole.length > most ? " …" : "");
}

function cut(whole, most) {
  const last = whole.charCodeAt(most - 1); // half a pair is not left at the end
  return whole.slice(0, last >= 0xd800 && last < 0xdc00 ? most - 1 : most);
}

/* A text as an element: isolated, marks spelled out, cut, with a control that shows more. */
export function text(value, most = 400, attributes = {}) {
  const whole = String(value ?? "");
  const element = h("bdi", { dir: "auto", ...attributes });
  let shown = 0;
  const grow = (until) => {
    const end = until >= whole.length ? whole.length : cut(whole, until).length;
    appendMarked(element, whole.slice(shown, end));
    shown = end;
    if (shown >= whole.length) return;
    const left = whole.length - shown;
    const button = h("button", { type: "button", class: "more" }, t("more", { n: number(left) }));
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      button.remove();
      grow(shown + MORE);
    });
    element.append(button);
  };
  grow(most);
  return element;
}

function appendMarked(element, part) {
  let from = 0;
  for (const found of part.matchAll(HIDDEN)) {
    if (found.index > from) element.append(part.slice(from, found.index));
    element.append(h("span", { class: "mark", dir: "ltr" }, spelled(found[0])));
    from = found.index + found[0].length;
  }
  element.append(part.slice(from));
}

/* A name in a line of its own: one line, cut by the width, whole in its title. */
export function name(value, attributes = {}) {
  return text(plain(value, 400), 500, { title: plain(value), ...attributes, class: "name" });
}

/* --- numbers */

export function number(value) {
  return value === null || value === undefined ? "–" : Number(value).toLocaleString("en-US");
}

export function share(part, whole) {
  if (!whole) return "–";
  return `${(Math.floor((1000 * part) / whole) / 10).toFixed(part === whole ? 0 : 1)} %`;
}

export function bytes(value) {
  if (value === null || value === undefined) return "";
  const power = value < 1000 ? 0 : Math.min(4, Math.floor(Math.log10(value) / 3));
  return `${(value / 1000 ** power).toFixed(power ? 1 : 0)} ${["B", "kB", "MB", "GB", "TB"][power]}`;
}

/* --- parts of pages */

export function heading(words, ...beside) {
  return h("div", { class: "head" }, h("h2", {}, words), ...beside);
}

export function button(words, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, words);
}

/* A control with its label: label above or, with `beside`, in one line. */
export function labelled(words, control, kind = "") {
  return h("label", { class: `labelled ${kind}` }, h("span", {}, words), control);
}

export function select(options, chosen, attributes = {}) {
  const made = options.map(([value, words]) =>
    h("option", { value, selected: value === chosen }, plain(words, 80)),
  );
  return h("select", attributes, made);
}

/* A table: heads as [words, class], rows of cells. */
export function table(caption, heads, rows) {
  const head = heads.map(([words, kind]) => h("th", { scope: "col", class: kind }, words));
  const body = rows.map((cells) =>
    h("tr", {}, cells.map((cell, place) => h("td", { class: heads[place][1] }, cell))),
  );
  return h(
    "table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, body),
  );
}

export function details(words, content, open = false, attributes = {}) {
  return h("details", { open, ...attributes }, h("summary", {}, words), content);
}

/* A horizontal bar of a share, drawn; its figure stands beside it as text. */
export function bar(part, whole, kind = "") {
  const width = whole ? Math.max(part ? 2 : 0, Math.round((100 * part) / whole)) : 0;
  return svg(
    "svg", { class: `bar ${kind}`, viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 4 }),
    svg("rect", { class: "part", width, height: 4 }),
  );
}

/* What went wrong: where, what, and what to do. */
export function problem(error) {
  const { where, problem: said, hint } = error.told ?? { problem: error.message };
  return h(
    "div", { class: "problem", role: "alert" },
    h("p", {}, where ? [text(where, 200, { class: "where" }), ": "] : null, text(said, 1000)),
    hint ? h("p", { class: "soft" }, text(hint, 500)) : null,
  );
}

export function announce(words) {
  document.getElementById("live").textContent = plain(words, 500);
}

/* Show pages of a long list: `load(start)` gives {total, elements}. */
export function paged(size, load) {
  const body = h("div", { class: "paged" });
  const place = h("span", { class: "soft" });
  const back = button("‹", () => go(start - size), { "aria-label": t("earlier") });
  const on = button("›", () => go(start + size), { "aria-label": t("later") });
  let start = 0;
  async function go(to) {
    back.disabled = on.disabled = true;
    try {
      const { total, elements } = await load(Math.max(0, to));
      start = Math.max(0, to);
      const last = Math.min(start + size, total);
      place.textContent = total
        ? t("of", { from: number(start + 1), to: number(last), n: number(total) })
        : t("none");
      body.replaceChildren(...elements);
      on.disabled = start + size >= total;
    } catch (error) {
      body.replaceChildren(problem(error));
    }
    back.disabled = start === 0;
  }
  go(0);
  return [h("div", { class: "pager" }, back, place, on), body];
}
