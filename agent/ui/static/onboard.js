/* The page of one source: what is which field, what comes of it, and the approval. */
import { pathInput } from "./browse.js";
import { announce, button, h, name, number, plain, problem, put, soft, text,
  working } from "./dom.js";
import { drawAlternatives, drawExamples, drawTargets } from "./examples.js";
import { drawFields } from "./fields.js";
import { address, get, openConversation, post, stream } from "./requests.js";
import { told } from "./reasons.js";
import { changeWords, drawChange, drawSide } from "./side.js";
import { Talk } from "./talk.js";
import { t } from "./words.js";

export async function show(page, [id = ""]) {
  const { view } = openConversation;
  openConversation.view = null;
  const own = `/api/onboard/${encodeURIComponent(id)}`;
  new Onboarding(page, view?.id === id ? view : await get(own), own);
}

class Onboarding {
  constructor(page, view, own) {
    this.page = page;
    this.view = view;
    this.own = own;
    this.example = 0;
    this.closed = new Set(); // paths of fields whose children are hidden
    this.filter = "";
    this.wanted = { field: "", value: "", outcome: "" }; // which rows are shown
    this.others = null; // alternatives, where they were asked for
    this.allTargets = false; // whether those without a field are shown
    this.change = null; // what the last line did
    this.busy = false;
    this.talk = new Talk(this);
    const part = (kind, words) => h("section", { class: `panel ${kind}`, "aria-label": words });
    this.top = h("div", { class: "bar-top" });
    this.fields = part("fields", t("fields"));
    this.middle = part("middle", t("mapping_and_examples"));
    this.side = part("side", t("checks"));
    this.foot = part("foot", t("approval"));
    this.out = pathInput(t("out"), ["folder"], view.out ?? view.suggested_out);
    this.tokenizer = pathInput(t("tokenizer"), ["file", "folder"], view.tokenizer ?? "",
      { placeholder: t("optional") });
    this.state = h("div", { class: "state", role: "status" });
    const right = h("div", { class: "right" }, this.side, this.talk.whole);
    put(page, this.top, this.fields, this.middle, right, this.foot);
    page.shortcuts = {
      "/": () => this.talk.input.focus(),
      f: () => this.fields.querySelector("[role=treeitem][tabindex='0']")?.focus(),
      u: () => this.say("undo"), r: () => this.say("redo"), "[": () => this.turn(-1),
      "]": () => this.turn(1),
    };
    for (const kind of ["pointerover", "focusin", "pointerleave"]) {
      page.addEventListener(kind, (event) => this.light(event));
    }
    this.draw();
    if (view.converting) this.wait();
  }

  /* Send a line of the conversation, and show what it did. */
  async say(line) {
    if (this.busy || this.view.converting) {
      announce(t("busy"));
      return;
    }
    this.busy = true;
    put(this.state); // what was converted was another mapping
    this.page.setAttribute("aria-busy", "true");
    this.talk.begin(line);
    try {
      const done = await stream(`${this.own}/say`, { line }, {
        word: ({ text: word }) => this.talk.hear(word),
      });
      this.view = done.view;
      this.change = { line, ...done };
      this.others = done.alternatives ?? (done.effect ? null : this.others);
      if (this.isFiltered()) await this.loadRows();
    } catch (error) {
      this.change = { line, error };
    }
    this.talk.end(this.change);
    this.busy = false;
    this.page.removeAttribute("aria-busy");
    this.draw();
    announce(changeWords(this.change));
  }

  /* Send lines one after the other, until one is refused. */
  async sayAll(lines) {
    for (const line of lines) {
      await this.say(line);
      const { line: sent, error, problems = [] } = this.change ?? {};
      if (sent !== line || error || problems.length) {
        this.draw(); // a box shows again what is so
        return;
      }
    }
  }

  isFiltered() {
    return Boolean(this.wanted.field || this.wanted.outcome);
  }

  async loadRows() {
    this.view = { ...this.view, ...(await get(`${this.own}/rows`, this.wanted)) };
  }

  /* Show the rows with a value or an outcome; those of before where it is chosen already. */
  async filterBy(part) {
    const before = this.wanted;
    const same = Object.keys(part).every((key) => before[key] === part[key]);
    const cleared = Object.fromEntries(Object.keys(part).map((key) => [key, ""]));
    this.wanted = { ...before, ...(same ? cleared : part) };
    this.example = 0;
    try {
      await this.loadRows();
    } catch (error) {
      this.wanted = before;
      this.change = { line: "", error };
    }
    this.draw();
    const { found, of } = this.view.rows;
    announce(t("rows_found", { n: number(found), of: number(of) }));
  }

  /* Show the targets without a field while one is dragged. */
  unfoldTargets() {
    this.allTargets = true;
    const folded = this.middle.querySelector(".more-targets");
    if (folded) folded.open = true;
  }

  /* Say why a gesture does nothing. */
  refuse(words) {
    this.change = { line: "", problems: [words] };
    this.draw(false);
    announce(words);
  }

  turn(by) {
    const last = this.view.examples.length - 1;
    this.example = Math.min(last, Math.max(0, this.example + by));
    this.draw(false);
    announce(t("example_of", { i: this.example + 1, n: last + 1 }));
  }

  /* Draw everything, or the middle only, and leave the focus where it was. */
  draw(all = true) {
    const key = document.activeElement?.dataset?.key;
    this.example = Math.max(0, Math.min(this.example, this.view.examples.length - 1));
    put(this.middle, drawTargets(this), drawAlternatives(this), drawChange(this),
      drawExamples(this));
    if (all) {
      this.drawTop();
      drawFields(this.fields, this);
      drawSide(this.side, this);
      this.drawFoot();
    }
    if (key === undefined) return;
    const places = [...this.page.querySelectorAll("[data-key]")];
    places.find((one) => one.dataset.key === key)?.focus({ preventScroll: true });
  }

  drawTop() {
    const { source, decision, mapper, confidence, evidence, sample, reason, model, step } = this.view;
    const doubts = evidence.filter((one) => one.target === "doubt").slice(0, 2);
    const fact = (words, value) =>
      h("span", { class: "fact" }, soft(words), " ", value);
    const moves = (sign, line, key, end) => button(sign, () => this.say(line), {
      "aria-label": t(line), title: `${t(line)} (${key})`, disabled: end, "data-key": line,
    });
    const rows = sample && `${number(sample.ok)}/${number(sample.rows)} ${t("rows")}`;
    put(this.top, h("h1", {}, name(this.view.lake?.name ?? source)),
      h("span", { class: `badge ${plain(decision, 20)}` }, t(`decision ${decision}`, {}, decision)),
      fact(t("by"), text(mapper ?? "–", 40)),
      fact(t("confidence"), confidence ?? "–"),
      rows && fact(t("sample"), rows), model && fact(t("model"), text(model, 60)),
      h("span", { class: "soft reason" }, name(told(reason))),
      confidence && doubts.length > 0 && h("span", { class: "doubts" }, soft(t("doubts")), " ",
        text(doubts.map((one) => told(one.why)).join("; "), 400)),
      h("span", { class: "steps-nav" }, moves("↶", "undo", "u", step.at <= 1), this.history(),
        moves("↷", "redo", "r", step.at >= step.of)));
  }

  /* The steps of the mapping, each with the line that made it; one that is chosen is gone to. */
  history() {
    const { step: { at, of }, steps } = this.view;
    const go = (to) => this.sayAll(Array(Math.abs(to - at)).fill(to < at ? "undo" : "redo"));
    const line = ({ words, by }, place) => h("li", {}, button(
      [soft(`${place + 1}. `), words ? h("code", {}, plain(words, 120)) : t("first_proposal"), " ",
        soft(t(`by ${by}`, {}, by))],
      () => go(place + 1), { class: "link", disabled: place + 1 === at,
        "aria-current": place + 1 === at ? "step" : null }));
    const words = h("summary", { "aria-label": `${t("history")}: ${at}/${of}` },
      `${t("history")} ${at}/${of}`);
    return h("details", { class: "history" }, words, h("ol", {}, steps.map(line)));
  }

  /* Mark a field in all places where the pointer or the focus is on one of them. */
  light(event) {
    const path = event.target.closest?.("[data-field]")?.dataset.field;
    for (const one of this.page.querySelectorAll("[data-field]")) {
      one.classList.toggle("lit", one.dataset.field === path);
    }
  }

  // --- approval

  drawFoot() {
    const { view, state } = this;
    const { lake, done, converting, decision, can_approve: can } = view;
    const act = (words, key, does, more) => button(words, does, { "data-key": key, ...more });
    const main = { class: "primary", disabled: !can || converting, "aria-describedby": "why-not" };
    const why = h("span", { class: "soft", id: "why-not" }, can ? null : t("solve_first"));
    if (done && !converting) {
      const href = address("result", "", { path: done, tokenizer: view.tokenizer ?? "" });
      put(state, t("done"), " ", h("a", { class: "button primary", href }, t("open_result")));
    }
    if (!lake && decision === "irrelevant") {
      put(this.foot, h("span", { class: "soft" }, t("nothing_to_approve")), state);
      return;
    }
    if (!lake) {
      const approve = act(t("approve"), "approve", () => this.approve(), main);
      put(this.foot, this.out.whole, this.tokenizer.whole, approve, why, state);
      return;
    }
    put(this.foot, h("span", {}, t("lake_set"), " ", text(lake.name, 100)),
      act(t("lake approve"), "approve", () => this.decide("approve"), main),
      act(t("lake reject"), "reject", () => this.decide("reject")), why, state,
      h("a", { href: address("lake", "", { path: lake.path }) }, t("back_to_lake")));
  }

  async approve() {
    const out = this.out.input.value.trim();
    const tokenizer = this.tokenizer.input.value.trim() || null;
    const seen = this.view.digest;
    this.view = { ...this.view, converting: true };
    this.draw();
    put(this.state, working(t("converting")));
    try {
      this.view = await stream(`${this.own}/approve`, { out, tokenizer, seen }, {
        progress: (done) => put(this.state, working(plain(done.text, 160))),
        word: ({ text: words }) => words && put(this.state, working(plain(words, 160))),
      });
      put(this.state);
      this.draw();
      announce(t("done"));
    } catch (error) {
      this.view = { ...this.view, converting: false };
      this.draw();
      put(this.state, problem(error));
    }
  }

  /* A conversion that goes on in the server: ask until it is done, or the page was left. */
  async wait() {
    put(this.state, working(t("converting")));
    while (this.view.converting) {
      await new Promise((next) => setTimeout(next, 1000));
      if (!this.page.isConnected) return;
      try {
        this.view = await get(this.own);
      } catch (error) {
        put(this.state, problem(error));
        return;
      }
    }
    put(this.state);
    this.draw();
  }

  // --- the queue of a lake

  async decide(decision) {
    const { lake, id, digest: seen } = this.view;
    put(this.state, working(t("opening")));
    try {
      await post("/api/lake/decide", { decision, id, seen });
      announce(t(`decided ${decision}`));
      const { waiting } = await get("/api/lake", { path: lake.path });
      const { name: next } = waiting.find((one) => one.name !== lake.name) ?? {};
      if (next) openConversation(await stream("/api/lake/open", { lake: lake.path, name: next }));
      else location.hash = address("lake", "", { path: lake.path });
    } catch (error) {
      put(this.state, problem(error));
    }
  }
}
