/* The first page: choose a source, continue a conversation, open a result or a lake. */
import { browse } from "./browse.js";
import { button, h, heading, name, plain, problem, put, select, soft,
  working } from "./dom.js";
import { address, openConversation, stream } from "./requests.js";
import { t } from "./words.js";

export async function show(page, _rest, _query, told) {
  const modes = ["auto", "pt", "sft"].map((one) => [one, t(`mode ${one}`)]);
  const mode = select(modes, "auto");
  const state = h("div", { class: "state", role: "status" });
  const files = h("div", { class: "browser", tabindex: "-1" });

  async function begin(source) {
    const controls = page.querySelectorAll("button, select");
    const able = (on) => controls.forEach((one) => (one.disabled = !on));
    const steps = h("ol", { class: "steps" });
    able(false);
    put(state, h("p", {}, working(t("looking_at"), " ", name(source))), steps);
    try {
      openConversation(await stream("/api/onboard", { source, mode: mode.value }, {
        step: ({ node }) => steps.append(h("li", {}, t(`node ${node}`, {}, plain(node, 40)))),
      }));
    } catch (error) {
      put(state, problem(error));
      able(true);
    }
  }

  const named = (words, label) => ({ "aria-label": `${words}: ${plain(label, 80)}` });
  const use = (path, label) =>
    button(t("use_source"), () => begin(path),
      { class: "quiet", ...named(t("use_source"), label) });
  const actions = ({ kind, path, name: label }) => {
    const [to, key, words] = {
      result: ["result", "path", t("open_result")], lake: ["lake", "path", t("open_lake")],
      mapping: ["review", "new", t("compare")],
    }[kind] ?? [];
    if (!to) return kind !== "proposal" && use(path, label);
    const href = address(to, "", { [key]: path });
    return h("a", { class: "button", href, ...named(words, label) }, words);
  };
  const at = (when) => (typeof when === "number" ? new Date(1000 * when).toLocaleString() : when);
  const talks = told.conversations.map((one) =>
    h("li", {}, h("a", { href: address("onboard", one.id) }, name(one.source)),
      soft(t(`state ${one.state}`, {}, one.state), ` · ${plain(at(one.at), 40)}`)));
  put(page, h("h1", {}, t("start_title")), h("p", { class: "soft lead" }, t("start_lead")),
    h("div", { class: "columns" }, h("section", { class: "card", "aria-label": t("files") },
        heading(t("files"), h("label", { class: "beside" }, t("mode"), mode)), state, files),
      h("section", { class: "card", "aria-label": t("conversations") }, heading(t("conversations")),
        talks.length
          ? h("ul", { class: "talks" }, talks)
          : h("p", { class: "soft" }, t("no_conversations")))));
  await browse(files, "", actions, (path) => path && use(path, path));
}
