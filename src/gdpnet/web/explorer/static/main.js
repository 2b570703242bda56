// The page: its data, or the server that has it, and the views that follow what is chosen.
import { el, byId, tell, complain, counted } from "./dom.js";
import { Store } from "./data.js";
import { state, update, listen, beginState } from "./state.js";
import { Find, firstOf } from "./find.js";
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

const FEW = 20;
const MOST_FOUND = 50; // as many as a server sends

// What the views ask: the page's own data, or a server.
class Source {
  constructor(payload, api) {
    this.payload = payload;
    this.api = api;
    this.store = payload.nodes ? new Store(payload) : null;
    this.known = new Map();
  }

  about() {
    return this.payload.about;
  }

  threshold() {
    const asked = state.threshold === null ? NaN : Number(state.threshold);
    return Number.isNaN(asked) ? this.about().threshold : Math.max(0, Math.min(1, asked));
  }

  lists() {
    const lists = this.payload.lists ?? [];
    if (!this.store) return lists;
    const removed = this.store.mostRemoved(this.threshold());
    const others = lists.filter((one) => one.key !== "removed");
    const none = "No edge is below this threshold.";
    return [{ key: "removed", title: "Most removed edges", rows: removed, none }, ...others];
  }

  predictedOf(id) {
    const place = this.store?.place.get(id);
    return place === undefined ? null : this.store.name("predicted", place);
  }

  // The first nodes that match, and how many do: NaN if the server may know more than it sent.
  async search(text) {
    if (this.store) {
      const places = this.store.search(text);
      const row = (place) => ({ id: this.store.ids[place], text: this.store.name("predicted", place) ?? "" });
      return { rows: places.slice(0, MOST_FOUND).map(row), count: places.length };
    }
    const rows = text.trim() ? await asked(`${this.api}search?q=${encodeURIComponent(text.trim())}`) : [];
    return { rows, count: rows.length < MOST_FOUND ? rows.length : NaN };
  }

  // The data around a node: the page's own, or a part that the server sends.
  async around(id) {
    if (this.store) return this.store;
    if (!this.known.has(id)) {
      if (this.known.size > 30) this.known.clear();
      this.known.set(id, new Store(await asked(`${this.api}neighbourhood?node=${encodeURIComponent(id)}`)));
    }
    return this.known.get(id);
  }

  // What the model is judged by: the page's own, or computed by the server over the whole graph when it is first asked.
  async judge() {
    if (!this.payload.judge) Object.assign(this.payload, await asked(`${this.api}judge`));
    return this.payload.judge;
  }

  // The node that the page opens with: of the first list that is not empty, the first that is explained and has few neighbours.
  first() {
    if (!this.store) return this.payload.first ?? firstOf(this.lists())?.rows[0]?.id ?? null;
    const rows = (firstOf(this.lists())?.rows ?? []).map((row) => this.store.place.get(row.id));
    const explained = rows.filter((place) => this.store.hasEpisode(place));
    const small = explained.find((place) => this.store.node("degree")[place] <= FEW);
    return this.store.ids[small ?? explained[0] ?? rows[0] ?? 0] ?? null;
  }
}

async function asked(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.detail ?? `the server answered ${answer.status}`);
  return content;
}

class Page {
  constructor(source) {
    this.source = source;
    const { about, judge } = source.payload;
    this.slider = new Slider(about, judge);
    this.judgeSlider = new Slider(about, judge);
    source.chosenNeighbour = () => this.why.neighbour();
    source.chooseNeighbour = (place) => this.why.choose(place);
    source.moveStep = (step) => this.why.move(step);
    source.show = (panel) => this.show(panel);
    this.find = new Find(source);
    this.picture = new Picture(source, this.slider);
    this.why = new Why(source);
    this.judge = judge ? new Judge(about, judge, this.judgeSlider) : null;
    this.canJudge = Boolean(judge || source.payload.can_judge);
    if (this.canJudge && !judge) this.slider.offerJudge(() => this.show("judge"));
    document.querySelector("[data-go=judge]").hidden = !this.canJudge;
    byId("title").textContent = about.title || "GDPNet explorer";
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
      state.node = this.source.first();
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
      this.why.draw(store, place);
      this.picture.draw(store, place);
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
    if (changed.has("tab")) this.tabs();
    if (changed.has("node") || changed.has("hops") || changed.has("view") || changed.has("theme"))
      await this.drawNode();
    else if (changed.has("step")) {
      this.why.follow();
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
    this.judge?.follow(threshold);
    if (this.picture.store) {
      this.picture.follow(threshold);
      if (this.why.decisions?.length) this.why.follow();
    }
  }

  async drawJudge() {
    if (!this.canJudge) return;
    try {
      if (!this.judge) await this.askForJudge();
      this.judge.draw();
      this.judge.follow(this.source.threshold());
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
    if (panel !== "judge" && panel !== "explore") document.body.dataset.panel = panel;
    if (state.tab !== tab) update({ tab });
    this.tabs();
    if (tab === "explore") this.picture.fit();
  }

  tabs() {
    const judging = state.tab === "judge" && this.canJudge;
    byId("explore").hidden = judging;
    byId("judge").hidden = !judging;
    const panel = document.body.dataset.panel;
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
      el("form", { method: "dialog" }, el("button", { class: "small", text: "Close" })),
    );
    dialog.showModal();
  }

  onKey(event) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
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
