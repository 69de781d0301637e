/* Files below the root: a list to walk through, and a dialog that picks a path. */
import { button, bytes, h, name, number, plain, problem, put } from "./dom.js";
import { get } from "./requests.js";
import { t } from "./words.js";

/* Walk folders in `place`; `actions(entry)` and `here(path)` make what stands beside them. */
export async function browse(place, path, actions, here) {
  let answer;
  try {
    answer = await get("/api/files", { path });
  } catch (error) {
    put(place, problem(error));
    return;
  }
  const go = async (to) => {
    await browse(place, to, actions, here);
    (place.querySelector("button") ?? place).focus();
  };
  const row = (entry) => {
    const opens = entry.bytes === null;
    const words = name(entry.name);
    const open = { type: "button", class: "link", onclick: () => go(entry.path) };
    return h(
      "li", { class: `entry ${entry.kind}` }, h("span", { class: "kind" }, t(`kind ${entry.kind}`)),
      opens ? h("button", open, words) : words, h("span", { class: "bytes" }, bytes(entry.bytes)),
      h("span", { class: "acts" }, actions(entry)));
  };
  put(place,
    h("div", { class: "place" }, answer.parent !== null && button(t("up"), () => go(answer.parent)),
      name(answer.path || "."), h("span", { class: "acts" }, here(answer.path))),
    answer.entries.length
      ? h("ul", { class: "entries" }, answer.entries.map(row))
      : h("p", { class: "soft" }, t("empty")),
    answer.more > 0 && h("p", { class: "soft" }, t("and_more", { n: number(answer.more) })));
}

/* Ask for a path in a dialog; null where none was chosen. */
function pickPath(title, kinds) {
  return new Promise((resolve) => {
    let chosen = null;
    const place = h("div", { class: "browser", tabindex: "-1" });
    const close = () => {
      box.remove();
      resolve(chosen);
    };
    const box = h("dialog", { "aria-label": title, onclose: close }, h("h2", {}, title), place,
      h("form", { method: "dialog" }, h("button", {}, t("cancel"))));
    const choose = (path, label) => button(t("choose"), () => {
      chosen = path;
      box.close();
    }, { "aria-label": `${t("choose")}: ${plain(label, 80)}` });
    document.body.append(box);
    box.showModal();
    browse(place, "", (entry) => kinds.includes(entry.kind) && choose(entry.path, entry.name),
      (path) => kinds.includes("folder") && path && choose(path, path));
  });
}

/* An input for a path, with a button that browses. */
export function pathInput(words, kinds, value = "", attributes = {}) {
  const input = h("input", { type: "text", value, spellcheck: "false", ...attributes });
  const pick = button(t("browse"), async () => {
    input.value = (await pickPath(words, kinds)) ?? input.value;
    input.dispatchEvent(new Event("change"));
  }, { "aria-label": `${t("browse")}: ${words}` });
  const label = h("label", { class: "labelled" }, h("span", {}, words), input);
  return { input, whole: h("div", { class: "path" }, label, pick) };
}
