/* What the checks say, what a person has to look at, and what a change did. */
import { bar, button, details, h, heading, name, number, plain, problem, put, select, soft,
  text } from "./dom.js";
import { told } from "./reasons.js";
import { gateName, t } from "./words.js";

const ICONS = { pass: "✓", warn: "!", fail: "✕", person: "◐" };
const WORST = ["fail", "person", "warn", "pass"];

export function drawSide(panel, page) {
  const { gates, problems, person, roles, evidence, mapping, sample } = page.view;
  const worst = WORST.find((state) => gates.some((one) => one.state === state)) ?? "pass";
  const passing = gates.filter((one) => one.state === "pass");
  const others = WORST.slice(0, 3).flatMap((state) => gates.filter((one) => one.state === state));
  const list = (found) => h("ul", { class: "gates" }, found.map(gateLine));
  const json = text(JSON.stringify(mapping, null, 1), 6000);
  const folded = (key, words, content, open = false) => {
    const before = panel.querySelector(`details[data-open=${key}]`); // as the person left it
    return details(words, content, before?.open ?? open, { "data-open": key });
  };
  const state = h("span", { class: `state-word ${worst}` }, `${ICONS[worst]} `, t(`gate ${worst}`));
  const speakers = roles?.length > 0 && rolesList(page);
  const first = problems.some((one) => one.control === "roles"); // then they solve a problem
  put(panel, heading(t("checks"), sample ? state : soft(t("not_checked"))),
    toldList(t("problems"), problems, "fail", page), first && speakers,
    toldList(t("person_why"), person, "person"),
    list(others), passing.length > 0
      && folded("gates", t("passing", { n: passing.length }), list(passing), !others.length),
    !first && speakers,
    evidence.length > 0 && folded("why", t("evidence"), reasons(evidence)),
    folded("json", t("mapping_json"), h("pre", { tabindex: "0" }, json)));
}

/* What is wrong or asked; a problem with the line that solves it, which a click sends. */
function toldList(title, found, kind, page) {
  const line = ({ command }) => (/[|]|FIELD/.test(command) // the person fills that in
    ? h("code", {}, text(command, 200))
    : button(command, () => page.say(command), { class: "quiet", "data-key": command }));
  const items = found.map((one) => h("li", {}, text(told(one.words ?? one), 400),
    one.command && [" ", line(one)]));
  return found.length > 0 && [h("h3", {}, title), h("ul", { class: `told ${kind}` }, items)];
}

function gateLine({ name: gate, state, figure, limit, detail }) {
  return h("li", { class: `gate ${state}` }, h("span", { class: "icon", "aria-hidden": "true" },
      ICONS[state]),
    h("span", { class: "gate-name" }, text(gateName(gate), 80)),
    h("span", { class: "gate-state" }, t(`gate ${state}`)),
    h("span", { class: "figure" }, text(told(figure), 160), limit && state !== "pass"
      && h("span", {}, ` · ${t("limit")} `, text(told(limit), 120))),
    // What fails is told as a problem above.
    detail && state !== "fail" && h("span", { class: "detail" }, text(told(detail), 300)));
}

function rolesList(page) {
  const { roles } = page.view;
  const most = Math.max(...roles.map((one) => one.count ?? 0));
  const known = ["user", "assistant", "system", "tool"].map((one) => [one, one]);
  known.push(["drop", t("left_out_role")]);
  const lines = roles.map(({ name: speaker, count, role, command }) => {
    const listed = known.some(([one]) => one === role);
    const options = listed ? known : [["", role || t("no_role")], ...known];
    const control = select(options, role ?? "", {
      "aria-label": `${t("role")}: ${plain(speaker, 60)}`, "data-key": `role ${speaker}`,
      disabled: !command, onchange: () => control.value && page.say(`${command} ${control.value}`),
    });
    return h("li", {}, name(speaker), bar(count ?? 0, most), soft(number(count)), control);
  });
  return [h("h3", {}, t("speakers")), h("ul", { class: "roles" }, lines)];
}

function reasons(evidence) {
  return h("dl", { class: "evidence" }, evidence.map(({ target, choice, runner_up: other, why }) =>
    [
    h("dt", {}, text(target, 60), " = ", text(choice, 120)),
    h("dd", { class: "soft" }, text(told(why), 300), other
      && [` · ${t("runner_up")} `, text(other, 120)])]));
}

// --- the last change

const EFFECT = ["before", "after", "same", "changed", "lost", "gained"];

/* What a line did, in a sentence. */
export function changeWords({ error, problems = [], effect, say = "" }) {
  if (error) return error.message;
  if (problems.length) return `${t("not_changed")}: ${told(problems[0].words ?? problems[0])}`;
  if (effect?.before === undefined) return say;
  return t("effect", Object.fromEntries(EFFECT.map((key) => [key, number(effect[key])])));
}

export function drawChange(page) {
  const { line, error, problems = [], effect, say } = page.change ?? {};
  const refused = !effect && say && /^(set|drop|keep|swap|role|train|take)\b/.test(line);
  if (!error && !effect && !problems.length && !refused) return null;
  const close = () => {
    page.change = null;
    page.draw();
  };
  const undo = { disabled: page.view.step.at <= 1, "data-key": "undo-change" };
  const figures = EFFECT.filter((key) => effect?.[key] !== undefined).map((key) =>
    h("div", { class: effect[key] ? key : "zero" }, h("dt", {}, t(`effect ${key}`)),
      h("dd", {}, number(effect[key]))));
  const targets = effect?.targets.map(([target, ...words]) =>
    h("li", {}, h("b", {}, text(target, 60)), " ", text(words.join(" → "), 240)));
  const place = `${t("difference")} ${plain(effect?.place, 120)}`;
  const kinds = { "-": "gone", "+": "new" };
  const lines = effect?.difference?.map((one) =>
    h("div", { class: kinds[one[0]] ?? "" }, text(one, 300)));
  return h("section", { class: `change ${effect?.lost || !effect ? "loses" : ""}`,
      "aria-label": t("last_change") },
    heading(effect ? t("last_change") : t("not_changed"), h("code", {}, name(line)),
      effect && button(t("undo"), () => page.say("undo"), undo),
      button("×", close, { class: "quiet", "aria-label": t("close") })),
    error && problem(error), toldList("", refused ? [say, ...problems] : problems, "fail", page),
    figures.length > 0 && h("dl", { class: "effect" }, figures),
    targets && h("ul", { class: "was" }, targets),
    lines?.length > 0 && details(place, h("div", { class: "difference" }, lines), true));
}
