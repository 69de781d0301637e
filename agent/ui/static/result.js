/* A finished result: figures that add up, lengths, records, rejects, tokens, the manifest. */
import { pathInput } from "./browse.js";
import { bar, bytes, details, h, heading, name, number, paged, plain, put, share, svg, table,
  text } from "./dom.js";
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
    return [found.total, draw(found[list], found)];
  });
  const records = pages("records", 20, "records", (found, { hidden }) => [
    hidden && h("p", { class: "soft" }, t("hidden_here")),
    found.map((one) =>
      h("article", { class: "record", "aria-label": `${t("record")} ${one.number}` },
        h("span", { class: "no" }, `#${number(one.number)}`), nodeList(one.nodes)))]);
  const reject = (one) => [name(one.file), number(one.row), text(one.reason, 60),
    [one.path && [text(one.path, 120), ": "], text(one.found ?? "", 300)]];
  const heads = [t("file"), t("row"), t("reason"), t("detail")];
  const rejects = pages("rejects", 50, "rejects", (found) =>
    table(t("rejects"), heads, found.map(reject)));
  const left = Object.entries(result.rejects);
  const reasons = left.map(([one, count]) => [text(one, 80), number(count)]);
  const files = result.files.map((one) => [name(one.name), bytes(one.bytes)]);
  const wrong = Object.values(result.rejects).some((count) => count > 0);
  const json = text(JSON.stringify(manifest, null, 1), 8000);
  put(page, h("h1", {}, name(path || ".")), h("p", { class: "soft lead" },
      h("span", { class: `badge ${plain(kind, 20)}` }, t(`decision ${kind}`, {}, kind)), " ",
      t("from_source"), " ", name(source), reason && [" · ", text(reason, 200)]),
    figures(result), h("div", { class: "columns even" },
      card(t("lengths"), result.lengths ? lengths(result.lengths) : t("none")),
      card(t("reasons"), table(t("reasons"), [t("reason"), t("count")], reasons)),
      card(t("files"), h("div", { class: "scroll low", tabindex: "0" },
        table(t("files"), [t("file"), t("bytes")], files)))),
    result.tokens && card(t("tokens"), tokens(result.tokens, tokenizer, pages)),
    result.records.written > 0 && card(t("records"), records), wrong && card(t("rejects"), rejects),
    card(t("manifest"), details(t("as_json"), h("pre", { tabindex: "0" }, json))));
}

/* Rows read = rows converted + rejected + filtered; and what became of the records. */
function figures({ rows, records }) {
  const sum = ["converted", "rejected", "filtered"];
  const figure = (key, value, kind = key) =>
    h("div", { class: `figure ${kind}` }, h("dt", {}, t(key)), h("dd", {}, number(value)));
  const sign = (words) => h("span", { class: "sign", "aria-hidden": "true" }, words);
  const others = ["duplicates", "ragged"].filter((key) => records[key]);
  return h("section", { class: "card", "aria-label": t("figures") },
    h("dl", { class: "figures" }, figure("rows_read", rows.read),
      sum.map((key, place) => [sign(place ? "+" : "="), figure(key, rows[key])]),
      figure("records_written", records.written, "total"),
        others.map((key) => figure(key, records[key]))),
    bar(rows.converted, rows.read));
}

function lengths({ bins, counted, least, median, most: longest }) {
  const most = Math.max(1, ...bins.map((one) => one.count));
  const step = 400 / Math.max(1, bins.length);
  const drawn = bins.map(({ from, to, count }, place) => {
    const height = count ? Math.max(1, (100 * count) / most) : 0;
    const size = { x: place * step + 0.5, y: 100 - height, width: Math.max(0.5, step - 1), height };
    const title = `${number(from)}–${number(to)}: ${number(count)}`;
    return svg("rect", { class: "bin", ...size }, svg("title", {}, title));
  });
  const [first, last] = [number(bins[0]?.from ?? 0), number(bins.at(-1)?.to ?? 0)];
  const said = t("lengths_said", { n: number(counted), from: number(least), to: number(longest),
    median: number(median) });
  const picture = { viewBox: "0 0 400 100", preserveAspectRatio: "none", role: "img",
    "aria-label": said };
  return [
    svg("svg", { class: "histogram", ...picture }, drawn),
    h("div", { class: "axis" }, h("span", {}, first), h("span", {}, t("characters")),
      h("span", {}, last)),
    h("p", { class: "soft" }, said)];
}

// --- tokens

function tokens({ tokens: all, trained, documents, tokenizer }, given, pages) {
  const place = h("div", {});
  const draw = () => put(place, pages("tokens", 5, "documents", (found, answer) =>
    [answer.notes.map((one) => h("p", { class: "soft" }, text(one, 300))),
      found.map(tokenDocument)],
  () => (input.input.value ? { tokenizer: input.input.value } : {})));
  const input = pathInput(t("tokenizer"), ["file", "folder"], given, { onchange: draw });
  const part = trained === null ? "–" : `${number(trained)} (${share(trained, all)})`;
  const facts = [[t("tokens"), number(all)], [t("trained_on"), part],
    [t("documents"), number(documents)], [t("tokenizer"), text(tokenizer, 100)]];
  draw();
  return [h("dl", { class: "facts" }, facts.map(([words, value]) =>
      h("div", {}, h("dt", {}, words), h("dd", {}, value)))),
    h("div", { class: "token-form" }, input.whole, h("span", { class: "token trained" },
      t("trained")), h("span", { class: "token" }, t("untrained"))), place];
}

/* The tokens of a document; neighbours of one kind are a run, which is announced once. */
function tokenDocument({ number: at, of, tokens: found }) {
  const runs = [];
  for (const token of found) {
    if (runs.at(-1)?.trained !== token.trained) runs.push({ trained: token.trained, tokens: [] });
    runs.at(-1).tokens.push(token);
  }
  const drawn = runs.map(({ trained, tokens: run }) => h(
    trained ? "mark" : "span", {}, h("span", { class: "unseen" },
      ` ${t(trained ? "trained" : "untrained")}: `),
    run.map((one) => text(one.text, 200, {
      class: trained ? "token trained" : "token", title: `${one.id}: ${plain(one.text, 60)}`,
    }))));
  return h("article", { class: "document", "aria-label": `${t("document")} ${at}` },
    h("span", { class: "no" }, `#${number(at)}`), drawn,
    of > found.length && h("p", { class: "soft" }, t("and_more", { n: number(of - found.length) })),
  );
}
