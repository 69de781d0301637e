/* A lake: how many data sets have which status, and those that wait for a person. */
import { button, bytes, h, heading, name, number, plain, problem, put, share, soft, table, text,
  working } from "./dom.js";
import { address, get, openConversation, stream } from "./requests.js";
import { t } from "./words.js";

export async function show(page, _rest, { path = "" }) {
  const lake = await get("/api/lake", { path });
  const state = h("div", { class: "state", role: "status" });

  async function open(one) {
    const able = (on) => page.querySelectorAll("button").forEach((control) =>
      (control.disabled = !on));
    able(false);
    put(state, working(t("opening"), " ", name(one.name)));
    try {
      openConversation(await stream("/api/lake/open", { lake: path, name: one.name }));
    } catch (error) {
      put(state, problem(error));
      able(true);
    }
  }

  const figure = (words, value) =>
    h("div", { class: "figure" }, h("dt", {}, words), h("dd", {}, number(value)));
  const statuses = Object.entries(lake.by_status).map(([word, n]) => figure(text(word, 40), n));
  const heads = [
    t("data_set"), t("why"), t("decision"), t("confidence"),
    t("coverage"), t("format"), t("files"), t("bytes"), t("open")];
  const rows = lake.waiting.map((one) => [
    [name(one.name), one.place !== one.name && soft(" ", name(one.place))], text(one.why, 240),
    one.decision && h("span", { class: "badge" },
      t(`decision ${one.decision}`, {}, plain(one.decision, 20))),
    one.confidence ?? "–", one.coverage === null ? "–" : share(one.coverage, 1),
    text(one.format, 40), number(one.files), bytes(one.bytes),
    button(t("open"), () => open(one), { class: "primary",
      "aria-label": `${t("open")}: ${plain(one.name, 80)}` })]);
  const count = soft(number(rows.length));
  put(page, h("h1", {}, name(path || ".")),
    h("p", { class: "soft lead" }, t("lake_of"), " ", name(lake.root)),
    h("section", { class: "card", "aria-label": t("figures") },
      h("dl", { class: "figures" }, figure(t("sets"), lake.sets),
        figure(t("records"), lake.records), statuses)),
    h("section", { class: "card", "aria-label": t("waiting") }, heading(t("waiting"), count), state,
      rows.length ? h("div", { class: "scroll" }, table(t("waiting"), heads, rows))
        : h("p", {}, t("nothing_waits")),
      lake.by_status.approved > 0 && h("p", {}, t("run_again"))),
    h("section", { class: "card", "aria-label": t("all_sets") }, heading(t("all_sets")),
      h("div", { class: "scroll" }, table(t("all_sets"), [t("data_set"), t("status"), t("why"), ""],
        lake.data_sets.map((one) => [name(one.name), text(one.status, 40), text(one.why, 240),
          one.result && h("a", { href: address("result", "", { path: one.result }),
            "aria-label": `${t("open_result")}: ${plain(one.name, 80)}` }, t("open_result"))]))),
      lake.sets > lake.data_sets.length && h("p", { class: "soft" },
        t("and_more", { n: number(lake.sets - lake.data_sets.length) }))));
}
