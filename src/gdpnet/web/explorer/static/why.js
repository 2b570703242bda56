// Why: the prediction of a node, its heads, its episode step by step, and the evidence for each edge.
import { el, svg, said, byId, bar, twoSided, number, change, counted, csvButton, percent, tell } from "./dom.js";
import { state, update } from "./state.js";
import { classColour } from "./colours.js";

const MOST_CLASSES = 6;
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
    this.running = this.decisions.reduce(
      (sums, one) => [...sums, sums.at(-1) + one.adds],
      [store.node("alone")[place]],
    );
    this.heading = el(
      "h2",
      {},
      "Why is ",
      said(store.ids[place]),
      " predicted ",
      said(store.name("predicted", place) ?? "so"),
      "?",
    );
    this.episode = el("div", { class: "episode" });
    this.detail = el("div", { class: "detail" });
    this.body = el("div", {});
    const parts = [this.heading, this.chips(), ...this.sentences(), this.classes(), this.heads()];
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

  chips() {
    const { store, place } = this;
    const [predicted, label] = [store.name("predicted", place), store.name("label", place)];
    const chips = [];
    if (predicted !== null) chips.push(this.chip("predicted", predicted, classColour(store.about.classes, predicted)));
    chips.push(
      label === null
        ? el("span", { class: "chip", text: "no known label" })
        : this.chip("label", label, classColour(store.about.classes, label)),
    );
    if (label !== null && predicted !== null && store.about.task === "classification") {
      chips.push(
        el("span", {
          class: `chip ${label === predicted ? "good" : "bad"}`,
          text: label === predicted ? "✓ agrees" : "✗ differs",
        }),
      );
    }
    chips.push(
      el("span", { class: "chip", text: store.splitOf(place) }),
      el("span", { class: "chip", text: counted(store.node("degree")[place], "neighbour") }),
    );
    const suggested = store.name("suggested", place);
    if (suggested !== null) chips.push(el("span", { class: "chip bad" }, "suspected label; rather ", said(suggested)));
    const clean = store.name("clean_label", place);
    if (clean !== null && label !== null && clean !== label)
      chips.push(el("span", { class: "chip noise" }, "✕ planted label; truly ", said(clean)));
    if (store.node("corrupted")?.[place]) chips.push(el("span", { class: "chip noise", text: "✕ planted features" }));
    return el("div", { class: "chips" }, ...chips);
  }

  chip(what, text, colour) {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = colour;
    return el("span", { class: "chip" }, dot, `${what} `, said(text));
  }

  sentences() {
    const { store, place } = this;
    const [value, alone] = [store.node("value")[place], store.node("alone")[place]];
    if (Number.isNaN(value)) return [];
    const explained = store.name("explained", place);
    const what = explained ? ["Probability of ", said(explained), ": "] : ["Predicted: "];
    const first = el("p", { class: "sum" }, ...what, el("b", { text: number(value) }));
    if (!store.hasEpisode(place)) return [first];
    first.append(
      ` = ${number(alone)} alone ${change(value - alone)} from ${counted(this.decisions.length, "neighbour")}`,
    );
    const lines = [first];
    if (!this.decisions.length)
      lines.push(el("p", { class: "quiet", text: "The node has no neighbours: only its own features count." }));
    if (store.node("ended_early")[place])
      lines.push(el("p", { class: "quiet", text: "The greedy episode ended before all neighbours were reached." }));
    return lines;
  }

  classes() {
    const all = this.store.probabilitiesOf(this.place).sort((one, other) => other[1] - one[1]);
    if (all.length < 2) return null;
    const rows = all.slice(0, MOST_CLASSES).map(([name, value]) => {
      const level = bar(value, `${number(value)}`);
      level.querySelector(".level").style.fill = classColour(this.store.about.classes, name);
      return el(
        "tr",
        {},
        el("th", { scope: "row" }, said(name)),
        el("td", { class: "wide" }, level),
        el("td", { class: "number", text: number(value) }),
      );
    });
    const rest = all.slice(MOST_CLASSES).reduce((sum, [, value]) => sum + value, 0);
    if (all.length > MOST_CLASSES)
      rows.push(
        el(
          "tr",
          { class: "quiet" },
          el("th", { scope: "row", text: counted(all.length - MOST_CLASSES, "other class", "other classes") }),
          el("td", {}),
          el("td", { class: "number", text: number(rest) }),
        ),
      );
    return section("Class probabilities", el("table", { class: "bars" }, el("tbody", {}, ...rows)));
  }

  heads() {
    const heads = this.store.headsOf(this.place).filter((one) => one.predicted !== null);
    if (!heads.length) return null;
    const chance = this.store.about.task !== "regression";
    const rows = heads.map((one) =>
      el(
        "tr",
        {},
        el("th", { scope: "row", text: one.name }),
        el("td", { class: "number", text: one.weight.toFixed(2) }),
        el("td", {}, said(one.predicted)),
        el("td", { class: "wide" }, chance ? bar(one.value, number(one.value)) : null),
        el("td", { class: "number", text: number(one.value) }),
      ),
    );
    const header = ["head", "weight", "says", "", chance ? "probability" : "number"];
    return section(
      "What each head says",
      el(
        "div",
        { class: "scroll" },
        el(
          "table",
          { class: "bars" },
          el("thead", {}, el("tr", {}, ...header.map((text) => el("th", { scope: "col", text })))),
          el("tbody", {}, ...rows),
        ),
      ),
    );
  }

  // Show the step that is chosen, and which edges the threshold keeps.
  follow() {
    const chosen = this.chosen();
    this.drawEpisode(chosen);
    this.detail.replaceChildren(...(chosen === null ? [] : [this.evidence(this.decisions[chosen])]));
    this.drawTable(chosen);
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
      `step ${next + 1} of ${count}: neighbour ${one.id}, ${this.isKept(one) ? "kept" : "dropped"}, keep probability ${number(one.keep)}, adds ${change(one.adds)}`,
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
    const words =
      chosen === null ? `${counted(count, "step")}: choose one, or go through them` : `Step ${chosen + 1} of ${count}`;
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
          button("◀", "Previous step", -1, chosen === 0),
          button("▶", "Next step", 1, chosen === count - 1),
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
          "aria-label": `The probability goes from ${number(this.running[0])} alone to ${number(this.running.at(-1))} with all neighbours`,
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
              : `after step ${at}: ${number(this.running[at])}`,
        }),
      ),
    );
  }

  evidence(one) {
    const { store } = this;
    const predicted = store.name("predicted", one.neighbour);
    const label = store.name("label", one.neighbour);
    const noise = store.link("spurious");
    const planted = noise && one.edge >= 0 ? noise[one.edge] === 1 : null;
    const go = el("button", {
      type: "button",
      class: "small",
      text: "Go to this node",
      onclick: () => update({ node: one.id, step: null }),
    });
    return el(
      "div",
      { class: "card", "aria-label": `Edge to ${one.id}` },
      el("div", { class: "row" }, el("h3", {}, "Edge to ", said(one.id)), go),
      el(
        "p",
        {},
        this.action(one),
        ` at threshold ${number(this.source.threshold(), 2)} · adds `,
        el("b", { text: change(one.adds) }),
        predicted === null ? "" : " · predicted ",
        predicted === null ? "" : said(predicted),
        label === null ? "" : " · label ",
        label === null ? "" : said(label),
      ),
      planted === null || !store.truthKnown()
        ? null
        : el(
            "p",
            { class: planted ? "noise" : "" },
            planted
              ? "✕ Planted noise: this edge was added on purpose."
              : "Not planted: this edge is one of the graph's own.",
          ),
      el("p", { class: "words", text: this.inWords(one) }),
      el("table", { class: "bars" }, el("tbody", {}, ...this.evidenceRows(one))),
    );
  }

  evidenceRows(one) {
    const { store } = this;
    const most = Math.max(1, ...this.decisions.map((other) => other.common));
    const rows = [
      ["keep probability", one.keep, number(one.keep), "both directions"],
      ["as this node decides", one.byNode, number(one.byNode)],
      ["as the neighbour decides", one.byNeighbour, number(one.byNeighbour)],
      ["genuine probability", one.genuine, number(one.genuine)],
      ["drawn with probability", one.step ? one.draw : NaN, one.step ? number(one.draw) : "–"],
      ["features shared (cosine)", one.cosine, number(one.cosine, 2)],
      ["common neighbours", one.common / most, String(one.common)],
      [store.about.agreement, one.agreement, number(one.agreement, 2)],
    ].filter(([, value]) => !Number.isNaN(value));
    if (!Number.isNaN(one.weight)) rows.push(["edge weight", NaN, number(one.weight)]);
    if (store.features) for (const [name, value] of store.featuresOf(one.row)) rows.push([name, NaN, number(value)]);
    return rows.map(([name, value, text]) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, said(name)),
        el("td", { class: "wide" }, Number.isNaN(value) ? null : bar(value, text)),
        el("td", { class: "number", text }),
      ),
    );
  }

  // The evidence in words, compared with all other edges where the page has them.
  inWords(one) {
    const compared = (name, value) => {
      const share = this.store.shareBelow(name, value);
      return Number.isNaN(share) ? "" : ` (higher than for ${percent(share).replace(".0 %", " %")} of all edges)`;
    };
    const parts = [
      one.common
        ? `${counted(one.common, "common neighbour")}${compared("common_neighbours", one.common)}`
        : "no common neighbour",
      `feature cosine ${number(one.cosine, 2)}${compared("cosine", one.cosine)}`,
      `${this.store.about.agreement} ${number(one.agreement, 2)}${compared("agreement", one.agreement)}`,
    ];
    const text = parts.join("; ");
    return `${text[0].toUpperCase()}${text.slice(1)}.`;
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
            { type: "button", class: "link", "aria-label": `Step ${at + 1}: neighbour ${one.id}` },
            this.mark(one),
            said(one.id),
          ),
        ),
        el("td", {}, this.action(one)),
        el("td", { class: "number", text: number(one.keep) }),
        ...(genuine ? [el("td", { class: "number", text: number(one.genuine) })] : []),
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
      { class: "scroll", role: "region", "aria-label": "Steps of the episode", tabindex: 0 },
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
        one.keep,
        one.genuine,
        one.adds,
        store.name("label", one.neighbour),
        store.name("predicted", one.neighbour),
        one.common,
        one.cosine,
        one.agreement,
        one.byNode,
        one.byNeighbour,
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

function section(title, content) {
  return el("section", { "aria-label": title }, el("h3", { text: title }), content);
}
