"use strict";
/* Parts of the page: elements, numbers, small pictures. Text comes into the page by text nodes
   only, so that nothing of what a data set holds is ever read as HTML. */

const SVG = "http://www.w3.org/2000/svg";
const UNKNOWN = "–";
const LANGUAGE_COLOURS = 8;

function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

/* --- texts */

/* Marks that are not seen and change how what is beside them is read: controls, marks that turn
   the direction, tags, half a surrogate pair. They are spelled out; ZWJ and the like belong to
   writing and stay. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\u{e0000}-\u{e007f}]/gu;

function spelled(mark) {
  return "\\u{" + mark.codePointAt(0).toString(16) + "}";
}

/* A text as an element: isolated, its hidden marks spelled out. */
function text(value, tag = "bdi", attributes = {}) {
  const element = el(tag, { dir: "auto", ...attributes });
  const whole = String(value);
  let from = 0;
  for (const found of whole.matchAll(HIDDEN)) {
    if (found.index > from) element.append(whole.slice(from, found.index));
    element.append(el("span", { class: "hidden-mark", dir: "ltr" }, spelled(found[0])));
    from = found.index + found[0].length;
  }
  element.append(whole.slice(from));
  return element;
}

/* The same where only plain text can stand: titles, labels. */
function plain(value) {
  return String(value).replace(HIDDEN, spelled);
}

/* --- numbers */

const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const BRIEF = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 4 });
const CENTS = new Intl.NumberFormat("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

function count(value) {
  return value === undefined || value === null ? UNKNOWN : WHOLE.format(value);
}

/* A large number in short: 25.4B; whole in the title of what shows it. */
function brief(value) {
  return value >= 1e8 ? BRIEF.format(value) : count(value);
}

function many(value, one, more = one + "s") {
  return count(value) + " " + (value === 1 ? one : more);
}

function percent(share) {
  if (share === undefined || share === null || Number.isNaN(share)) return UNKNOWN;
  const hundredths = 100 * share;
  if (hundredths === 0 || hundredths >= 99.95) return hundredths.toFixed(0) + " %";
  return hundredths < 0.01 ? "< 0.01 %" : Number(hundredths.toPrecision(hundredths < 1 ? 1 : hundredths < 10 ? 2 : 3)) + " %";
}

function bytes(value) {
  if (!value) return UNKNOWN;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const power = Math.min(Math.floor(Math.log10(value) / 3), units.length - 1);
  const shown = value / 1000 ** power;
  return (power && shown < 100 ? shown.toFixed(1) : shown.toFixed(0)) + " " + units[power];
}

function dollars(value) {
  if (value === undefined || value === null) return UNKNOWN;
  if (value === 0) return "$0";
  if (value < 0.0001) return "< $0.0001";
  return "$" + (value < 0.01 ? value.toFixed(4) : CENTS.format(value));
}

/* --- languages */

function languageName(code) {
  return code === "" ? "unknown" : code === "*" ? "others" : code;
}

/* Colour of a language: the most frequent ones of the lake have one each. */
const colours = new Map();

function colourLanguages(languages) {
  languages.first.filter(([code]) => code !== "" && code !== "*").slice(0, LANGUAGE_COLOURS)
    .forEach(([code], place) => colours.set(code, "l" + place));
}

function colourOf(code) {
  return colours.get(code) || "l-other";
}

function total(counts) {
  return counts.first.reduce((sum, [, number]) => sum + number, counts.count || 0);
}

/* --- small pictures */

/* A bar of parts: [class, number, what it is]. Parts of a thousandth are left out. */
function bar(parts, whole, label) {
  const picture = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": plain(label) });
  picture.append(svg("rect", { class: "track", width: 100, height: 8 }));
  let left = 0;
  for (const [kind, number, what] of parts) {
    const width = whole ? 100 * number / whole : 0;
    if (width >= 0.1) {
      picture.append(svg("rect", { class: kind, x: left.toFixed(2), width: width.toFixed(2), height: 8 }, svg("title", {}, plain(what))));
    }
    left += width;
  }
  return picture;
}

function languageBar(languages) {
  const whole = total(languages);
  const parts = languages.first.map(([code, number]) => [colourOf(code), number, languageName(code) + ": " + count(number)]);
  const label = languages.first.slice(0, 3).map(([code, number]) => languageName(code) + " " + percent(number / whole)).join(", ");
  return bar(parts, whole, label);
}

/* Bins of a histogram from its first to its last, those without records too: [least, number]. */
function bins(lengths) {
  const known = new Map(lengths.map(([least, number]) => [Number(least), number]));
  const last = Math.max(...known.keys());
  const all = [];
  for (let least = Math.min(...known.keys()); least <= last; least = least ? least * 2 : 1) {
    all.push([least, known.get(least) || 0]);
  }
  return all;
}

function binName(least) {
  return least < 2 ? String(least) : count(least) + "–" + count(2 * least - 1);
}

function atMost(least) {
  return "at most " + count(least < 2 ? least : 2 * least - 1);
}

/* The bin in which the middle record lies. */
function middle(lengths) {
  const half = lengths.reduce((sum, [, number]) => sum + number, 0) / 2;
  let below = 0;
  for (const [least, number] of lengths) {
    below += number;
    if (below >= half) return Number(least);
  }
  return undefined;
}

function histogram(lengths, height = 18, width = 4) {
  const all = bins(lengths);
  const most = Math.max(...all.map(([, number]) => number));
  const label = "characters of a record: half of them have " + atMost(middle(lengths));
  const picture = svg("svg", { class: "histogram", width: all.length * width, height, role: "img", "aria-label": label });
  all.forEach(([least, number], place) => {
    const tall = number ? Math.max(1.5, (height - 1) * number / most) : 0.75;
    picture.append(svg("rect", {
      class: number ? "bin" : "bin none", x: place * width, y: height - tall, width: width - 1, height: tall,
    }, svg("title", {}, binName(least) + " characters: " + count(number))));
  });
  return picture;
}
