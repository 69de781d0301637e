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
const HIDDEN = new RegExp("[\\0-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b\\u200e\\u200f"
  + "\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e007f}]",
    "gu");

function spelled(mark) {
  return `\\u{${mark.codePointAt(0).toString(16)}}`;
}

/* A text where only plain text can stand: titles, labels of controls. */
export function plain(value, most = 300) {
  const whole = String(value ?? "");
  return cut(whole, most).replace(HIDDEN, spelled) + (whole.length > most ? " …" : "");
}

function cut(whole, most) {
  const last = whole.charCodeAt(most - 1);
  const half = most < whole.length && last >= 0xd800 && last < 0xdc00; // of a surrogate pair
  return whole.slice(0, half ? most - 1 : most);
}

/* A text as an element: isolated, marks spelled out, cut, with a control that shows the rest. */
export function text(value, most = 400, attributes = {}) {
  const whole = String(value ?? "");
  const first = cut(whole, most);
  const rest = whole.slice(first.length);
  const element = appendMarked(h("bdi", { dir: "auto", ...attributes }), first);
  const more = button(t("more", { n: number(rest.length) }), () => {
    more.remove();
    appendMarked(element, rest);
  }, { class: "more" });
  if (rest) element.append(more);
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
  return element;
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
  const unit = ["B", "kB", "MB", "GB", "TB"][power];
  return `${(value / 1000 ** power).toFixed(power ? 1 : 0)} ${unit}`;
}

/* --- parts of pages */

export function heading(words, ...beside) {
  return h("div", { class: "head" }, h("h2", {}, words), ...beside);
}

export function button(words, onclick, attributes = {}) {
  return h("button", { type: "button", onclick, ...attributes }, words);
}

export function select(options, chosen, attributes = {}) {
  const made = options.map(([value, words]) =>
    h("option", { value, selected: value === chosen }, plain(words, 80)));
  return h("select", attributes, made);
}

/* A table of rows of cells; those that are figures stand on the right. */
export function table(caption, heads, rows) {
  const kind = (cell) => (typeof cell === "string" && /^[\d–]/.test(cell) ? "number" : null);
  const head = heads.map((words, place) =>
    h("th", { scope: "col", class: rows[0] && kind(rows[0][place]) }, words));
  const body = rows.map((cells) =>
    h("tr", {}, cells.map((cell) => h("td", { class: kind(cell) }, cell))));
  return h("table", {}, h("caption", { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, head)), h("tbody", {}, body));
}

export function soft(...children) {
  return h("span", { class: "soft" }, ...children);
}

/* Words about work that goes on. */
export function working(...words) {
  return [h("span", { class: "spin", "aria-hidden": "true" }), ...words];
}

export function details(words, content, open = false, attributes = {}) {
  return h("details", { open, ...attributes }, h("summary", {}, words), content);
}

/* A horizontal bar of a share, drawn; its figure stands beside it as text. */
export function bar(part, whole) {
  const width = whole ? Math.max(part ? 2 : 0, Math.round((100 * part) / whole)) : 0;
  return svg("svg", { class: "bar", viewBox: "0 0 100 4", preserveAspectRatio: "none",
      "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 4 }),
    svg("rect", { class: "part", width, height: 4 }));
}

/* What went wrong: where, what, and what to do. */
export function problem(error) {
  const { where, problem: said, hint } = error.told ?? { problem: error.message };
  return h("div", { class: "problem", role: "alert" },
    h("p", {}, where && [text(where, 200, { class: "where" }), ": "], text(said, 1000)),
    hint && h("p", { class: "soft" }, text(hint, 500)));
}

export function announce(words) {
  document.getElementById("live").textContent = plain(words, 500);
}

/* Show pages of a long list: `load(start)` gives how many there are, and elements. */
export function paged(size, load) {
  const body = h("div", { class: "paged" });
  const place = h("span", { class: "soft" });
  const back = button("‹", () => go(start - size), { "aria-label": t("earlier") });
  const on = button("›", () => go(start + size), { "aria-label": t("later") });
  let start = 0;
  async function go(to) {
    back.disabled = on.disabled = true;
    try {
      const [total, elements] = await load(to);
      start = to;
      const last = number(Math.min(start + size, total));
      put(place, t("of", { from: number(Math.min(start + 1, total)), to: last, n: number(total) }));
      put(body, elements);
      on.disabled = start + size >= total;
    } catch (error) {
      put(body, problem(error));
    }
    back.disabled = start === 0;
  }
  go(0);
  return [h("div", { class: "pager" }, back, place, on), body];
}
