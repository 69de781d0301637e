/* A finished result: figures that add up, lengths, records, rejects, tokens, the manifest. */

import { pathInput } from "./browse.js";
import { bytes, details, h, heading, name, number, paged, plain, put, share } from "./dom.js";
import { svg, table, text } from "./dom.js";
import { nodeList } from "./examples.js";
import { get } from "./requests.js";
import { t } from "./words.js";

export async function show(page, _rest, { path = "", tokenizer = "" }) {
  const result = await get("/api/result", { path });
  const { kind, source, reason, manifest } = result;
  const card = (title, ...content) =>
    h("section", { class: "card", "aria-label": title }, heading(title), content);
  const pages = (what, count, list, draw, more = () => ({})) => paged(count, async (start) => {
    const found = await get(`/api/result/${what}`, { path, start, count, ...more() });
    return { total: found.total, elements: draw(found[list], found) };
  });
  const records = pages("records", 20, "records", (found) => found.map((one) =>
    h("article", { class: "record", "aria-label": `${t("record")} ${one.number}` },
      h("span", { class: "no" }, `#${number(one.number)}`), nodeList(one.nodes))));
  const heads = [[t("file"), ""], [t("row"), "number"], [t("reason"), ""], [t("detail"), "wide"]];
  const rejects = pages("rejects", 50, "rejects", (found) => [table(t("rejects"), heads, found.map((one) => [
    name(one.file), number(one.row), text(one.reason, 60),
    [one.path && [text(one.path, 120), ": "], text(one.found ?? "", 300)],
  ]))]);
  const wrong = Object.values(result.rejects).some((count) => count > 0);
  const json = text(JSON.stringify(manifest, null, 1), 8000);
  put(
    page, h("h1", {}, name(path || ".")),
    h("p", { class: "soft lead" },
      h("span", { class: `badge ${plain(kind, 20)}` }, t(`decision ${kind}`, {}, kind)), " ",
      t("from_source"), " ", name(source), reason && [" · ", text(reason, 200)]),
    figures(result),
    h("div", { class: "columns even" },
      card(t("lengths"), result.lengths ? lengths(result.lengths) : t("none")),
      card(t("reasons"), counts(result.rejects)), card(t("files"), files(result.files))),
    result.tokens && card(t("tokens"), tokens(result.tokens, tokenizer, pages)),
    result.records.written > 0 && card(t("records"), records), wrong && card(t("rejects"), rejects),
    card(t("manifest"), details(t("as_json"), h("pre", { tabindex: "0" }, json))),
  );
}

/* Rows read = rows converted + rejected + filtered; and what became of the records. */
function figures({ rows, records }) {
  const sum = ["converted", "rejected", "filtered"];
  const figure = (key, value, kind = key) =>
    h("div", { class: `figure ${kind}` }, h("dt", {}, t(key)), h("dd", {}, number(value)));
  const sign = (words) => h("span", { class: "sign", "aria-hidden": "true" }, words);
  let x = 0;
  const drawn = sum.map((key) => {
    const width = rows.read ? (1000 * rows[key]) / rows.read : 0;
    const title = svg("title", {}, `${t(key)}: ${share(rows[key], rows.read)}`);
    const part = svg("rect", { class: key, x, width, height: 8 }, title);
    x += width;
    return part;
  });
  const picture = {
    class: "sum", viewBox: "0 0 1000 8", preserveAspectRatio: "none", role: "img",
    "aria-label": sum.map((key) => `${t(key)} ${number(rows[key])}`).join(", "),
  };
  const others = ["duplicates", "ragged"].filter((key) => records[key]);
  return h(
    "section", { class: "card", "aria-label": t("figures") },
    h("dl", { class: "figures" }, figure("rows_read", rows.read),
      sum.map((key, place) => [sign(place ? "+" : "="), figure(key, rows[key])]),
      figure("records_written", records.written, "total"), others.map((key) => figure(key, records[key]))),
    svg("svg", picture, drawn),
  );
}

function lengths({ bins, counted, median }) {
  const most = Math.max(1, ...bins.map((one) => one.count));
  const step = 400 / Math.max(1, bins.length);
  const drawn = bins.map(({ from, to, count }, place) => {
    const height = count ? Math.max(1, (100 * count) / most) : 0;
    const size = { x: place * step + 0.5, y: 100 - height, width: Math.max(0.5, step - 1), height };
    const title = `${number(from)}–${number(to)}: ${number(count)}`;
    return svg("rect", { class: "bin", ...size }, svg("title", {}, title));
  });
  const [first, last] = [number(bins[0]?.from ?? 0), number(bins.at(-1)?.to ?? 0)];
  const said = t("lengths_said", { n: number(counted), from: first, to: last, median: number(median) });
  const picture = { viewBox: "0 0 400 100", preserveAspectRatio: "none", role: "img", "aria-label": said };
  return [
    svg("svg", { class: "histogram", ...picture }, drawn),
    h("div", { class: "axis" }, h("span", {}, first), h("span", {}, t("characters")), h("span", {}, last)),
    h("p", { class: "soft" }, said),
  ];
}

function counts(found) {
  const rows = Object.entries(found).map(([reason, count]) => [text(reason, 80), number(count)]);
  if (!rows.length) return h("p", { class: "soft" }, t("none"));
  return table(t("reasons"), [[t("reason"), ""], [t("count"), "number"]], rows);
}

function files(found) {
  const rows = found.map((one) => [name(one.name), bytes(one.bytes)]);
  const whole = table(t("files"), [[t("file"), ""], [t("bytes"), "number"]], rows);
  return h("div", { class: "scroll low", tabindex: "0", role: "region", "aria-label": t("files") }, whole);
}

// --- tokens

function tokens({ tokens: all, trained, documents, tokenizer }, given, pages) {
  const place = h("div", {});
  const notes = h("p", { class: "soft" });
  const input = pathInput(t("tokenizer"), ["file", "folder"], given);
  const draw = () => put(place, pages("tokens", 5, "documents", (found, answer) => {
    put(notes, (answer.notes ?? []).map((one) => [text(one, 300), " "]));
    return found.map(tokenDocument);
  }, () => (input.input.value.trim() ? { tokenizer: input.input.value.trim() } : {})));
  const facts = [
    [t("tokens"), number(all)], [t("trained_on"), trained === null ? "–" : `${number(trained)} (${share(trained, all)})`],
    [t("documents"), number(documents)], [t("tokenizer"), text(tokenizer, 100)],
  ];
  const submit = (event) => {
    event.preventDefault();
    draw();
  };
  draw();
  return [
    h("dl", { class: "facts" }, facts.map(([words, value]) => h("div", {}, h("dt", {}, words), h("dd", {}, value)))),
    h("form", { class: "token-form", onsubmit: submit }, input.whole, h("button", {}, t("show_texts")),
      h("span", { class: "token trained" }, t("trained")), h("span", { class: "token" }, t("untrained"))),
    notes, place,
  ];
}

/* The tokens of a document; neighbours of one kind are a run, which is announced once. */
function tokenDocument({ number: at, of, tokens: found }) {
  const runs = [];
  for (const token of found) {
    if (runs.at(-1)?.trained !== token.trained) runs.push({ trained: token.trained, tokens: [] });
    runs.at(-1).tokens.push(token);
  }
  const drawn = runs.map(({ trained, tokens: run }) => h(
    trained ? "mark" : "span", {}, h("span", { class: "unseen" }, ` ${t(trained ? "trained" : "untrained")}: `),
    run.map((one) => text(one.text, 200, {
      class: trained ? "token trained" : "token", title: `${one.id}: ${plain(one.text, 60)}`,
    })),
  ));
  return h(
    "article", { class: "document", "aria-label": `${t("document")} ${at}` },
    h("span", { class: "no" }, `#${number(at)}`), drawn,
    of > found.length && h("p", { class: "soft" }, t("and_more", { n: number(of - found.length) })),
  );
}
