// Why: the prediction of a node, its heads, its episode step by step, and the evidence for each edge.
import { el, svg, said, byId, twoSided, number, share, precise, change, counted, capital, csvButton, tell } from "./dom.js";
import { state, update } from "./state.js";
import { classColour } from "./colours.js";
import { question, explainedWords, chips, classBars, headTable } from "./prediction.js";
import { evidenceCard } from "./evidence.js";

const WIDTH = 300;
const HEIGHT = 70;

export class Why {
  constructor(source) {
    this.source = source;
    this.node = byId("why");
  }

  draw(store, place) {
    [this.store, this.place] = [store, place];
    this.decisions = store.decisionsOf(place);
    this.steps = this.decisions.filter((one) => one.step).length; // the others follow in the table, without a step
    this.running = this.decisions.reduce(
      (sums, one) => [...sums, sums.at(-1) + one.adds],
      [store.node("alone")[place]],
    );
    this.heading = el("h2", {}, ...question(store, place));
    this.episode = el("div", { class: "episode" });
    this.detail = el("div", { class: "detail" });
    this.body = el("div", {});
    const parts = [
      this.heading,
      chips(store, place),
      ...this.sentences(),
      classBars(store, place),
      headTable(store, place),
    ];
    if (!store.hasEpisode(place))
      parts.push(
        el("p", {
          class: "note",
          text: "This node is on the page as a neighbour of others; it was not explained itself.",
        }),
      );
    else if (this.decisions.length) parts.push(this.episode, this.detail, this.body);
    this.node.replaceChildren(...parts.filter(Boolean));
    if (this.decisions.length) this.follow();
  }

  sentences() {
    const { store, place } = this;
    const [value, alone] = [store.node("value")[place], store.node("alone")[place]];
    if (Number.isNaN(value)) return [];
    const first = el("p", { class: "sum" }, ...explainedWords(store, place), el("b", { text: number(value) }));
    if (!store.hasEpisode(place)) return [first];
    if (this.decisions.length)
      first.append(
        ` = ${number(alone)} alone ${change(value - alone)} from ${counted(this.decisions.length, "neighbour")}`,
      );
    const lines = [first];
    if (!this.decisions.length)
      lines.push(el("p", { class: "quiet", text: "The node has no neighbours: only its own features count." }));
    if (store.node("ended_early")[place])
      lines.push(el("p", { class: "quiet", text: this.endWords() }));
    return lines;
  }

  endWords() {
    if (!this.steps) return "The greedy episode ended at once, before any neighbour was reached.";
    return `The greedy episode ended after ${counted(this.steps, "step")}, before all neighbours were reached.`;
  }

  // What a row of the table is called: a step of the episode, or a neighbour that it did not reach.
  rowWords(at) {
    if (at < this.steps) return `step ${at + 1} of ${this.steps}`;
    return `${this.steps ? "other neighbour" : "neighbour"} ${at + 1 - this.steps} of ${this.decisions.length - this.steps}`;
  }

  allWords() {
    const others = this.decisions.length - this.steps;
    const all = [];
    if (this.steps) all.push(counted(this.steps, "step"));
    if (others) all.push(this.steps ? counted(others, "other neighbour") : counted(others, "neighbour"));
    return `${all.join(" and ")}: choose one, or go through them`;
  }

  // Show the step that is chosen, and which edges the threshold keeps.
  follow() {
    if (!this.decisions?.length) return;
    const chosen = this.chosen();
    this.drawEpisode(chosen);
    this.detail.replaceChildren(...(chosen === null ? [] : [this.evidence(this.decisions[chosen])]));
    this.drawTable(chosen);
  }

  showEvidence() {
    this.detail?.scrollIntoView({ block: "nearest" });
  }

  // The chosen edge in short, for a screen that does not show the evidence beside the picture.
  chosenWords() {
    const at = this.chosen();
    if (at === null) return null;
    const one = this.decisions[at];
    return [this.action(one), " edge to ", said(one.id), `: keep ${share(one.keep)}, adds ${change(one.adds)}`];
  }

  chosen() {
    if (state.step === null || !this.decisions?.length) return null;
    const at = Number(state.step) - 1;
    return at >= 0 && at < this.decisions.length ? at : null;
  }

  neighbour() {
    const chosen = this.chosen();
    return chosen === null ? null : this.decisions[chosen].neighbour;
  }

  choose(neighbour) {
    const at = this.decisions.findIndex((one) => one.neighbour === neighbour);
    if (at >= 0) update({ step: String(at + 1) });
  }

  move(step) {
    const count = this.decisions?.length ?? 0;
    if (!count) return;
    const at = this.chosen();
    const next = at === null ? (step > 0 ? 0 : count - 1) : Math.max(0, Math.min(count - 1, at + step));
    update({ step: String(next + 1) });
    const one = this.decisions[next];
    tell(
      `${this.rowWords(next)}: ${one.step ? "neighbour " : ""}${one.id}, ${this.isKept(one) ? "kept" : "dropped"}, keep probability ${share(one.keep)}, adds ${change(one.adds)}`,
    );
  }

  isKept(one) {
    return one.keep >= Math.fround(this.source.threshold());
  }

  action(one) {
    if (one.distance > 1) return el("span", { class: "quiet", text: `${one.distance} hops` });
    return el("span", { class: this.isKept(one) ? "keep" : "drop", text: this.isKept(one) ? "keep" : "drop" });
  }

  drawEpisode(chosen) {
    const count = this.decisions.length;
    const button = (text, label, step, off) =>
      el("button", {
        type: "button",
        class: "small",
        text,
        "aria-label": label,
        disabled: off,
        onclick: () => this.move(step),
      });
    const words = chosen === null ? this.allWords() : capital(this.rowWords(chosen));
    const focused = this.episode.contains(document.activeElement)
      ? document.activeElement.getAttribute("aria-label")
      : null;
    this.episode.replaceChildren(
      el(
        "div",
        { class: "row" },
        el("h3", { text: "Episode" }),
        el(
          "span",
          { class: "buttons" },
          button("◀", "Previous neighbour", -1, chosen === 0),
          button("▶", "Next neighbour", 1, chosen === count - 1),
        ),
      ),
      el("p", { class: "quiet", text: words }),
      this.chart(chosen),
    );
    if (focused) this.episode.querySelector(`[aria-label="${focused}"]`)?.focus();
  }

  // The probability as neighbours are added one after the other.
  chart(chosen) {
    const [low, high] = [Math.min(...this.running), Math.max(...this.running)];
    const [x, y] = [
      (at) => 6 + ((WIDTH - 12) * at) / (this.running.length - 1),
      (value) => HEIGHT - 8 - ((HEIGHT - 16) * (value - low)) / (high - low || 1),
    ];
    const path = this.running
      .map((value, at) => (at ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(0)} ${y(value).toFixed(1)}`))
      .join("");
    const at = chosen === null ? this.running.length - 1 : chosen + 1;
    return el(
      "div",
      { class: "running" },
      svg(
        "svg",
        {
          viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
          preserveAspectRatio: "none",
          role: "img",
          "aria-label": `The ${this.store.about.task === "regression" ? "prediction" : "probability"} goes from ${number(this.running[0])} alone to ${number(this.running.at(-1))} with all neighbours`,
        },
        svg("path", { d: path, class: "line" }),
        svg("path", { d: `M${x(at)} ${y(this.running[at])}h.01`, class: "point" }),
      ),
      el(
        "p",
        { class: "quiet row" },
        el("span", { text: `alone ${number(this.running[0])}` }),
        el("span", {
          text:
            chosen === null
              ? `all neighbours ${number(this.running.at(-1))}`
              : `${at <= this.steps ? `after step ${at}` : `with ${counted(at, "neighbour")}`}: ${number(this.running[at])}`,
        }),
      ),
    );
  }

  evidence(one) {
    return evidenceCard(this.store, this.decisions, one, this.action(one), this.source.threshold());
  }

  drawTable(chosen) {
    const { decisions } = this;
    const largest = Math.max(...decisions.map((one) => Math.abs(one.adds)));
    const genuine = decisions.some((one) => !Number.isNaN(one.genuine));
    const header = ["step", "neighbour", "edge", "keep", ...(genuine ? ["genuine"] : []), "adds", ""];
    const rows = decisions.map((one, at) =>
      el(
        "tr",
        {
          "aria-current": at === chosen ? "true" : null,
          class: at === chosen ? "chosen" : "",
          onclick: () => update({ step: String(at + 1) }),
        },
        el("td", { class: "number", text: one.step || "–", title: one.step ? "" : "the greedy episode ended before" }),
        el(
          "td",
          {},
          el(
            "button",
            {
              type: "button",
              class: "link",
              "aria-label": one.step ? `Step ${one.step}: neighbour ${one.id}` : `Neighbour ${one.id}, no step`,
            },
            this.mark(one),
            said(one.id, { title: one.id }),
          ),
        ),
        el("td", {}, this.action(one)),
        el("td", { class: "number", text: share(one.keep) }),
        ...(genuine ? [el("td", { class: "number", text: share(one.genuine) })] : []),
        el("td", { class: "number", text: change(one.adds) }),
        el("td", { class: "wide" }, twoSided(one.adds, largest, `adds ${change(one.adds)}`)),
      ),
    );
    const focus = this.body.contains(document.activeElement) ? chosen : null;
    const place = this.body.querySelector(".scroll")?.scrollTop ?? 0;
    const table = el(
      "table",
      { class: "steps" },
      el("thead", {}, el("tr", {}, ...header.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...rows),
    );
    const scroll = el(
      "div",
      { class: "scroll", role: "region", "aria-label": "Neighbours in order", tabindex: 0 },
      table,
    );
    this.body.replaceChildren(
      el(
        "div",
        { class: "row" },
        el("h3", { text: "Neighbours in order" }),
        csvButton(`episode of ${this.store.ids[this.place]}`, ...this.csv()),
      ),
      scroll,
    );
    scroll.scrollTop = place;
    if (focus !== null) rows[focus]?.querySelector("button").focus();
    if (chosen !== null) keepInView(rows[chosen], scroll);
  }

  mark(one) {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = classColour(this.store.about.classes, this.store.name("predicted", one.neighbour));
    return dot;
  }

  csv() {
    const { store } = this;
    const header = [
      "node",
      "neighbour",
      "step",
      "kept",
      "keep_probability",
      "genuine_probability",
      "contribution",
      "label",
      "predicted",
      "common_neighbours",
      "cosine",
      "agreement",
      "keep_by_node",
      "keep_by_neighbour",
      "distance",
    ];
    const rows = () =>
      this.decisions.map((one) => [
        store.ids[this.place],
        one.id,
        one.step || "",
        one.distance === 1 ? this.isKept(one) : "",
        precise(one.keep),
        precise(one.genuine),
        precise(one.adds),
        store.name("label", one.neighbour),
        store.name("predicted", one.neighbour),
        one.common,
        precise(one.cosine, 4), // packed in two bytes
        precise(one.agreement, 4),
        precise(one.byNode),
        precise(one.byNeighbour),
        one.distance,
      ]);
    return [header, rows];
  }
}

function keepInView(row, box) {
  const [top, height] = [row.offsetTop, row.offsetHeight];
  if (top < box.scrollTop + 30) box.scrollTop = top - 30;
  else if (top + height > box.scrollTop + box.clientHeight) box.scrollTop = top + height - box.clientHeight;
}
