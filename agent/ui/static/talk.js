/* The conversation: what was said, the words of a model as they come, and the line to type. */
import { button, h, heading, plain, put, text } from "./dom.js";
import { told } from "./reasons.js";
import { changeWords } from "./side.js";
import { t } from "./words.js";

const COMMANDS = "set drop keep swap role train alternatives take undo redo help out".split(" ");
const TARGETS = "text user assistant system tool message messages each group root".split(" ");

export class Talk {
  constructor(page) {
    this.page = page;
    this.log = h("div", { class: "log", role: "log", "aria-label": t("conversation"),
      tabindex: "0" });
    this.hints = h("div", { class: "hints", role: "status" });
    this.input = h("input", {
      type: "text", spellcheck: "false", autocomplete: "off", "aria-label": t("line"),
      placeholder: page.view.model ? t("line_model") : t("line_commands"), onkeydown: (event) => {
        if (event.key === "Tab" && !event.shiftKey && this.complete()) event.preventDefault();
      },
    });
    const submit = (event) => {
      event.preventDefault();
      const line = this.input.value.trim();
      this.input.value = "";
      put(this.hints);
      if (line) page.say(line);
    };
    const quick = (words, line) =>
      button(words, () => page.say(line), { class: "quiet", "data-key": line });
    this.whole = h("section", { class: "panel talk", "aria-label": t("conversation") },
      heading(t("conversation"), quick(t("alternatives"), "alternatives"),
        quick(t("commands"), "help")),
      this.log, this.hints,
      h("form", { onsubmit: submit }, this.input, h("button", { class: "primary" }, t("send"))));
    const said = page.view.said.map((one) => bubble(one.who, one.text));
    put(this.log, said.length ? said : this.examples());
  }

  /* Lines that fit this data: one is put into the input, and sent by the person. */
  examples() {
    const { fields } = this.page.view;
    const free = fields.find((one) => one.uses.length && !one.targets.length) ?? fields[0];
    const several = fields.filter((one) => one.choices?.values.length > 1);
    const rare = several.map((one) => one.choices.values.at(-1).lines[0]).find(Boolean);
    const added = free?.uses.find((one) => one.add)?.add ?? free?.uses[0]?.line;
    const lines = [rare, added, "alternatives", "help set"].filter(Boolean).slice(0, 3);
    const put_in = (line) => {
      this.input.value = line;
      this.input.focus();
    };
    return h("div", { class: "tries" }, h("p", { class: "soft" }, t("tries")),
      lines.map((line) => button(plain(line, 120), () => put_in(line),
        { class: "quiet", "aria-label": `${t("try")}: ${plain(line, 120)}` })));
  }

  /* What a line was answered stays below it. */
  end(change) {
    const { say, heard, error, problems = [], commands, alternatives, effect } = change;
    const usages = commands?.map(([usage, does]) =>
      [h("dt", {}, text(usage, 200)), h("dd", {}, text(does, 400))]);
    const found = alternatives && t(alternatives.length ? "others_found" : "no_alternatives",
      { n: alternatives.length });
    const changed = error || problems.length || effect?.before !== undefined;
    const shown = [heard && bubble("model", heard), found && bubble("ingot", found),
      say && say !== found && !alternatives && bubble("ingot", told(say)),
      changed && bubble("ingot", changeWords(change)),
      usages && h("dl", { class: "commands" }, usages)].filter(Boolean);
    put(this.answer, shown.length ? shown : bubble("ingot", t("on_page")));
    this.log.scrollTop = this.question.offsetTop - this.log.offsetTop;
  }

  /* A line was sent: show it, and the words of a model as they come. */
  begin(line) {
    this.words = h("span", {});
    const spin = h("span", { class: "spin", "aria-hidden": "true" });
    this.log.querySelector(".tries")?.remove();
    this.question = bubble("you", line);
    this.answer = h("div", {}, h("div", { class: "said model" }, spin, this.words));
    this.log.append(this.question, this.answer);
    this.log.scrollTop = this.log.scrollHeight;
  }

  /* The next words of a model; null: what it said before is withdrawn. */
  hear(word) {
    if (word === null) put(this.words);
    else this.words.append(text(word, 2000));
    this.log.scrollTop = this.log.scrollHeight;
  }

  /* Complete the word before the cursor; show the choices where there are several. */
  complete() {
    const before = this.input.value;
    const word = /[^\s,]*$/.exec(before)[0];
    const words = before.slice(0, before.length - word.length).split(/\s+/).filter(Boolean);
    const names = words[0] === "set" && words.length === 1
      ? [...TARGETS, ...this.page.view.targets.map((one) => one.name)]
      : this.page.view.fields.map((one) => one.path);
    const known = [...new Set(words.length ? names : COMMANDS)];
    const found = before ? known.filter((one) => one.startsWith(word) && one !== word) : [];
    if (!found.length) return false;
    let end = word.length;
    while (end < found[0].length && found.every((one) => one[end] === found[0][end])) end += 1;
    this.input.value = before + found[0].slice(word.length, end) + (found.length === 1 ? " " : "");
    const choices = found.length > 1 ? found.slice(0, 20) : [];
    put(this.hints, choices.map((one) => h("code", {}, plain(one, 60))));
    return true;
  }
}

function bubble(who, words) {
  return h("div", { class: `said ${who}` }, h("span", { class: "who" }, t(`who ${who}`, {}, who)),
    text(words, 1500));
}
