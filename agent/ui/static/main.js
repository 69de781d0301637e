/* The frame of the page: header, languages, help, and which page an address shows. */
import { button, h, plain, problem, put, select, text } from "./dom.js";
import { show as lake } from "./lake.js";
import { show as onboard } from "./onboard.js";
import { get, takeToken } from "./requests.js";
import { show as result } from "./result.js";
import { show as review } from "./review.js";
import { show as start } from "./start.js";
import { chooseLanguage, language, LANGUAGES, t } from "./words.js";

const PAGES = { start, onboard, result, lake, review };
const main = document.getElementById("main");
const skip = document.getElementById("skip");
let visited = false;

function drawTop(page, told) {
  document.documentElement.lang = language();
  skip.textContent = t("skip");
  const change = () => {
    chooseLanguage(tongue.value);
    route();
  };
  const tongue = select(LANGUAGES, language(), { "aria-label": t("language"), onchange: change });
  const tabs = [["start", t("start")], ["review", t("compare")]].map(([to, words]) =>
    h("a", { href: `#/${to}`, "aria-current": page === to ? "page" : null }, words));
  put(document.getElementById("top"), h("span", { class: "brand" }, "ingot"),
    h("nav", { "aria-label": t("pages") }, tabs), h("div", { class: "server" }, told && [
      h("span", {}, text(told.root, 60)),
        h("span", {}, told.model ? text(told.model, 60) : t("no_model"))]),
    tongue, button("?", help, { "aria-label": t("help"), title: t("help") }));
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // typed by hand
  }
}

/* Show the page of the address. A page that was left writes into elements that nobody sees. */
async function route() {
  takeToken();
  const [path, query] = location.hash.slice(1).split("?");
  const [, asked = "", ...rest] = path.split("/").map(decoded);
  const where = Object.hasOwn(PAGES, asked) ? asked : "start";
  const page = h("div", { class: `page ${where}` }, h("p", { role: "status" }, t("loading")));
  put(main, page);
  try {
    const told = await get("/api/start");
    drawTop(where, told);
    await PAGES[where](page, rest, Object.fromEntries(new URLSearchParams(query)), told);
  } catch (error) {
    drawTop(where, null);
    const locked = error.status === 401;
    page.className = "page";
    put(page, h("h1", {}, t(locked ? "no_token" : "problem")), locked
      ? h("p", {}, t("no_token_hint")) : problem(error));
  }
  const title = page.querySelector("h1");
  document.title = `${plain(title.textContent, 80)} · ingot`;
  title.tabIndex = -1;
  if (visited && page.isConnected && document.activeElement === document.body) title.focus();
  visited = true;
}

function help() {
  const rows = ["?", "/", "f", "u", "r", "[", "]", "Esc"].map((key) =>
    [h("dt", {}, h("kbd", {}, key)), h("dd", {}, t(`key ${key}`))]);
  const box = h(
    "dialog", { "aria-label": t("help"), onclose: () => box.remove() }, h("h2", {}, t("help")),
    h("dl", { class: "keys" }, rows), h("p", { class: "soft" }, t("help_tree")),
    h("form", { method: "dialog" }, h("button", {}, t("close"))));
  document.body.append(box);
  box.showModal();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, dialog");
  if (event.key === "Escape" && typing?.matches("input")) typing.blur();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const wanted = event.key === "?" ? help : main.firstElementChild?.shortcuts?.[event.key];
  if (!wanted) return;
  event.preventDefault();
  wanted();
});
skip.addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", route);
route();
