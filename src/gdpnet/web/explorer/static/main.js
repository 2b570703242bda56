// The page: its data, or the server that has it, and the views that follow what is chosen.
import { el, byId, tell, complain, counted, keepingFocus } from "./dom.js";
import { Source, asked } from "./source.js";
import { state, update, listen, beginState, beginWith } from "./state.js";
import { Find } from "./find.js";
import { Slider } from "./slider.js";
import { Picture } from "./picture.js";
import { Why } from "./why.js";
import { Judge } from "./judge.js";

const KEYS = [
  ["/", "search"],
  ["← →", "previous or next neighbour, in the order of the episode"],
  ["Enter", "in the picture: go to the chosen neighbour"],
  ["[ ]", "lower or raise the threshold"],
  ["1 2", "one or two hops"],
  ["b", "before and after, side by side"],
  ["d", "decisions"],
  ["e j", "explore, judge"],
  ["+ − 0", "in the picture: zoom, or show all of it"],
  ["?", "these keys"],
];

class Page {
  constructor(source) {
    this.source = source;
    const { about, judge } = source.payload;
    this.slider = new Slider(about, judge);
    this.judgeSlider = new Slider(about, judge);
    source.chosenNeighbour = () => this.why.neighbour();
    source.chooseNeighbour = (place) => this.why.choose(place);
    source.moveStep = (step) => this.why.move(step);
    source.chosenWords = () => this.why.chosenWords();
    source.showEvidence = () => this.show("why") ?? this.why.showEvidence();
    source.show = (panel) => this.show(panel);
    this.find = new Find(source);
    this.picture = new Picture(source, this.slider);
    this.why = new Why(source);
    this.judge = judge ? new Judge(about, judge, this.judgeSlider) : null;
    this.canJudge = Boolean(judge || source.payload.can_judge);
    if (this.canJudge && !judge) this.slider.offerJudge(() => this.show("judge"));
    document.querySelector("[data-go=judge]").hidden = !this.canJudge;
    byId("title").textContent = about.title || "GDPNet explorer";
    if (about.title) document.title = `GDPNet explorer: ${about.title}`; // a served page is named before it is asked
    byId("about").textContent =
      `${counted(about.nodes, "node")}, ${counted(about.edges, "directed edge")} · ${about.task} · GDPNet ${about.gdpnet}${source.store && !about.whole ? ` · ${counted(source.store.ids.length, "node")} on this page` : ""}`;
  }

  async begin() {
    beginState();
    this.theme();
    listen((changed) => this.follow(changed));
    for (const one of document.querySelectorAll("[data-go]"))
      one.addEventListener("click", () => this.show(one.dataset.go));
    byId("theme").addEventListener("click", () => update({ theme: isDark() ? "light" : "dark" }));
    byId("help").addEventListener("click", () => this.help());
    byId("skip").addEventListener("click", () => this.show("why") ?? byId("why").focus());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    addEventListener("keydown", (event) => this.onKey(event));
    if (state.node === null && this.source.first() !== null) {
      beginWith(this.source.first());
      this.chosenByPage = true;
    }
    this.tabs();
    this.find.showLists();
    this.thresholdMoved();
    if (state.tab === "judge") this.drawJudge();
    await this.drawNode();
  }

  async drawNode() {
    if (state.node === null) return;
    const wanted = state.node;
    try {
      const store = await this.source.around(wanted);
      if (wanted !== state.node) return;
      const place = store.place.get(wanted);
      if (place === undefined) throw new Error(`no node on this page has the id '${wanted}'`);
      complain("");
      keepingFocus(() => {
        this.why.draw(store, place);
        this.picture.draw(store, place);
      });
      if (!this.chosenByPage)
        tell(
          `node ${wanted}: predicted ${store.name("predicted", place) ?? "nothing"}, ${counted(store.node("degree")[place], "neighbour")}`,
        );
      this.chosenByPage = false;
    } catch (error) {
      complain(`The node cannot be shown: ${error.message}.`);
    }
  }

  async follow(changed) {
    if (changed.has("theme")) this.theme();
    if (changed.has("tab") || changed.has("panel")) this.tabs();
    if (changed.has("node") || changed.has("hops") || changed.has("view") || changed.has("theme"))
      await this.drawNode();
    else if (changed.has("step")) {
      this.why.follow();
      this.why.showEvidence();
      this.picture.mark();
    }
    if (changed.has("threshold")) this.thresholdMoved();
    if (changed.has("node") || changed.has("list") || changed.has("threshold")) this.find.showLists();
    if (state.tab === "judge" && (changed.has("tab") || changed.has("theme"))) this.drawJudge();
  }

  thresholdMoved() {
    const threshold = this.source.threshold();
    this.slider.show(threshold);
    this.judgeSlider.show(threshold);
    keepingFocus(() => this.judge?.follow(threshold));
    if (this.picture.store) {
      this.why.follow();
      this.picture.follow(threshold);
    }
  }

  async drawJudge() {
    if (!this.canJudge) return;
    try {
      if (!this.judge) await this.askForJudge();
      keepingFocus(() => {
        this.judge.draw();
        this.judge.follow(this.source.threshold());
      });
    } catch (error) {
      complain(`The model cannot be judged: ${error.message}.`);
    }
  }

  async askForJudge() {
    const panel = byId("judge");
    panel.replaceChildren(el("p", { class: "quiet", text: "The server decides on the whole graph, once." }));
    panel.setAttribute("aria-busy", "true");
    try {
      const judge = await this.source.judge();
      if (this.judge) return;
      this.slider.judgeBy(judge);
      this.judgeSlider.judgeBy(judge);
      this.judge = new Judge(this.source.about(), judge, this.judgeSlider);
      this.thresholdMoved();
      this.find.showLists();
    } finally {
      panel.removeAttribute("aria-busy");
    }
  }

  redraw() {
    this.drawNode();
    if (state.tab === "judge") this.drawJudge();
  }

  theme() {
    if (state.theme === null) delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = state.theme === "dark" ? "dark" : "light";
  }

  // Show a panel: on narrow screens one at a time, on wide ones all but the tab judge.
  show(panel) {
    const tab = panel === "judge" ? "judge" : "explore";
    const one = tab === "explore" && panel !== "explore" && isNarrow() ? panel : state.panel;
    update({ tab, panel: one });
    if (tab === "explore") this.picture.fit();
    const focused = document.activeElement;
    if (focused !== document.body && !focused.checkVisibility()) byId(tab === "judge" ? tab : one).focus();
  }

  tabs() {
    const judging = state.tab === "judge" && this.canJudge;
    byId("explore").hidden = judging;
    byId("judge").hidden = !judging;
    const { panel } = state;
    document.body.dataset.panel = panel;
    for (const one of document.querySelectorAll("[data-go]")) {
      const current = judging ? one.dataset.go === "judge" : one.dataset.go === "explore" || one.dataset.go === panel;
      if (current) one.setAttribute("aria-current", "page");
      else one.removeAttribute("aria-current");
    }
  }

  help() {
    const dialog = byId("keys");
    dialog.replaceChildren(
      el("h2", { text: "Keyboard" }),
      el(
        "table",
        {},
        el(
          "tbody",
          {},
          ...KEYS.map(([key, text]) =>
            el("tr", {}, el("th", { scope: "row" }, el("kbd", { text: key })), el("td", { text })),
          ),
        ),
      ),
      el(
        "p",
        {},
        el("input", {
          id: "single",
          type: "checkbox",
          checked: state.keys === "on",
          onchange: (event) => update({ keys: event.target.checked ? "on" : "off" }),
        }),
        el("label", { for: "single", text: " Keys without Ctrl or Alt do what is listed here" }),
      ),
      el("form", { method: "dialog" }, el("button", { class: "small", text: "Close" })),
    );
    dialog.showModal();
  }

  onKey(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    const arrow = event.key.startsWith("Arrow");
    // arrows scroll what can be scrolled sideways, and steps are no part of Judge
    if (arrow && (state.tab === "judge" || event.target.matches(".scroll, .legend"))) return;
    if (!arrow && state.keys === "off") return;
    if (event.ctrlKey || event.metaKey || event.altKey || typing || byId("keys").open) return;
    const grid = this.source.about().thresholds;
    const move = (step) => {
      const at = grid.findIndex((one) => one >= this.source.threshold());
      update({ threshold: grid[Math.max(0, Math.min(grid.length - 1, at + step))] });
    };
    const keys = {
      "/": () => this.show("find") ?? byId("search").focus(),
      "?": () => this.help(),
      "[": () => move(-1),
      "]": () => move(1),
      1: () => update({ hops: "1" }),
      2: () => update({ hops: "2" }),
      b: () => update({ view: "both" }),
      d: () => update({ view: "decisions" }),
      e: () => this.show("explore"),
      j: () => this.show("judge"),
      ArrowLeft: () => this.why.move(-1),
      ArrowRight: () => this.why.move(1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

function isNarrow() {
  return matchMedia("(max-width: 720px)").matches;
}

function isDark() {
  return state.theme === null ? matchMedia("(prefers-color-scheme: dark)").matches : state.theme === "dark";
}

async function begin() {
  try {
    const api = document.body.dataset.api;
    const own = JSON.parse(byId("payload").textContent);
    const payload = own ?? (await asked(`${api}summary`));
    await new Page(new Source(payload, api)).begin();
    document.body.dataset.ready = "true";
  } catch (error) {
    complain(`The page cannot be shown: ${error.message}.`);
    throw error;
  }
}

begin();
