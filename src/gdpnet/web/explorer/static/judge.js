// Judge: how good the decisions and predictions are, and how both follow the threshold.
import { el, said, byId, plainTable, csvButton, number, percent, counted, isolated, thresholdText } from "./dom.js";
import { decoded } from "./data.js";
import { HEIGHT_OF_CHART, chartTable, lineChart } from "./chart.js";
import { nearestThreshold } from "./slider.js";

const SCORES = { "micro f1": "Micro F1", r2: "R2", "roc auc": "ROC AUC", nmi: "NMI" };
// What a score is about.
const SCORED = {
  links: "hidden links, model's own threshold",
  clusters: "clusters and known classes, model's own threshold",
  other: "test nodes, model's own threshold",
};

export class Judge {
  constructor(about, judge, slider) {
    [this.about, this.judge, this.slider] = [about, judge, slider];
    this.charts = [];
    this.tiles = el("div", { class: "tiles" });
    this.matrix = el("div", {});
    this.removed = judge.matrix ? decoded(judge.matrix.removed) : null;
    addEventListener("resize", () => this.resize());
  }

  // Charts are drawn when they are first seen: hidden elements have no width.
  draw() {
    for (const { plot } of this.charts) plot.destroy();
    this.charts = [];
    this.grid = el("div", { class: "cards" });
    byId("judge").replaceChildren(
      el("div", { class: "top" }, this.tiles, el("div", { class: "card" }, this.slider.node)),
      this.grid,
    );
    this.overThreshold();
    this.curves(
      this.judge.edges,
      "Edges against the planted noise",
      "genuine edges kept",
      "planted noise kept",
      "share of genuine edges",
    );
    this.curves(
      this.judge.predictions,
      "Predictions on test nodes",
      "true positive rate",
      "false positive rate",
      "share that is right",
    );
    if (this.judge.matrix)
      this.grid.append(this.card("Removed edges, class by class", this.matrix, { wide: true, csv: this.matrixCsv() }));
    this.training();
    this.tables();
    this.settings();
  }

  card(title, content, { wide, csv, note } = {}) {
    const heading = el("div", { class: "row" }, el("h2", { text: title }), csv ? csvButton(title, ...csv) : null);
    return el(
      "section",
      { class: wide ? "card whole" : "card", "aria-label": title },
      heading,
      note ? el("p", { class: "quiet", text: note }) : null,
      content,
    );
  }

  follow(threshold) {
    this.threshold = threshold;
    this.at = nearestThreshold(this.about.thresholds, threshold);
    this.drawTiles();
    this.drawMatrix();
    for (const { plot, marked } of this.charts) if (marked) plot.redraw(false);
  }

  share(name, removed = false) {
    const counts = this.judge.thresholds.kept[name];
    if (!counts) return NaN;
    return removed ? 1 - counts[this.at] / counts[0] : counts[this.at] / counts[0];
  }

  homophily(at) {
    const { same_class: same, cross_class: cross } = this.judge.thresholds.kept;
    const [one, other] = [same ? same[at] : 0, cross ? cross[at] : 0];
    return one + other ? one / (one + other) : NaN;
  }

  drawTiles() {
    const { task } = this.about;
    const score = this.judge.scores.tables[0].rows.find(([name]) =>
      Object.hasOwn(SCORES, name),
    );
    const [before, after] = [this.homophily(0), this.homophily(this.at)];
    const tiles = [
      [
        "Edges kept",
        percent(this.share("all")),
        counted(this.judge.thresholds.kept.all?.[this.at] ?? 0, "directed edge"),
      ],
      ["Homophily", number(after), `${number(before)} before cleaning`],
      ["Within a class kept", percent(this.share("same_class")), "of edges with known labels"],
      ["Across classes removed", percent(this.share("cross_class", true)), "of edges with known labels"],
      [
        "Planted noise removed",
        percent(this.share("spurious", true)),
        `${percent(this.share("genuine"))} of the genuine edges kept`,
      ],
      score
        ? [SCORES[score[0]], score[1], score[2] ? `95 % interval ${score[2]}` : (SCORED[task] ?? SCORED.other)]
        : null,
    ].filter((one) => one && one[1] !== "–");
    this.tiles.replaceChildren(
      ...tiles.map(([name, value, more]) =>
        el(
          "div",
          { class: "tile" },
          el("span", { class: "quiet", text: name }),
          el("b", { text: value }),
          el("span", { class: "quiet", text: more }),
        ),
      ),
    );
  }

  overThreshold() {
    const { threshold, kept } = this.judge.thresholds;
    if (!kept.all?.[0]) return; // a graph without edges
    const tiny = threshold[1] < 0.01; // then most happens near 0, which has no place on a logarithmic scale
    const share = (counts) => counts.map((one) => one / counts[0]);
    const lines = [
      ["edges kept", share(kept.all)],
      ["homophily", threshold.map((_, at) => this.homophily(at))],
    ];
    if (kept.genuine) lines.push(["genuine kept", share(kept.genuine)], ["noise kept", share(kept.spurious)]);
    else if (kept.cross_class) lines.push(["across classes kept", share(kept.cross_class)]);
    const shown = tiny ? lines.map(([name, values]) => [name, values.slice(1)]) : lines;
    const options = { x: "threshold", marked: true, range: [0, 1], logarithmic: tiny };
    this.chart("Over the threshold", tiny ? threshold.slice(1) : threshold, shown, options);
  }

  curves(found, title, up, along, right) {
    if (!found) return;
    const { roc, calibration } = found;
    if (roc.length) {
      const lines = roc.map((one) => [one.name, number(one.auc), one]);
      this.scattered(`ROC: ${title.toLowerCase()}`, lines, {
        x: along,
        y: up,
        note: "The number is the area under the curve.",
      });
    }
    if (calibration.length) {
      const lines = calibration.map((one) => [one.name, number(one.error), one]);
      this.scattered(`Calibration: ${title.toLowerCase()}`, lines, {
        x: "probability",
        y: right,
        points: true,
        note: "The number is the expected calibration error.",
      });
    }
  }

  // Curves with a number and points of their own, over the diagonal.
  scattered(title, lines, options) {
    const all = [...new Set([0, 1, ...lines.flatMap(([, , one]) => one.x)])].sort((one, other) => one - other);
    const places = all.flatMap((one) => [one, one]);
    const at = new Map(all.map((one, place) => [one, 2 * place]));
    const series = lines.map(([name, score, one]) => {
      const values = new Array(places.length).fill(null);
      // a vertical step has two ends: the first and the last point at its place
      one.x.forEach((x, place) => {
        const first = at.get(x);
        values[values[first] === null ? first : first + 1] = one.y[place];
      });
      return [`${isolated(name)} ${score}`, values];
    });
    const rows = () =>
      lines.flatMap(([name, score, one]) =>
        one.x.map((x, place) => [`${name} ${score}`, x, one.y[place], one.count ? one.count[place] : ""]),
      );
    this.chart(title, places, [...series, ["diagonal", places, true]], {
      ...options,
      range: [0, 1],
      gaps: true,
      csv: [["curve", options.x, options.y, "count"], rows],
    });
  }

  training() {
    const found = this.judge.training;
    if (!found) return;
    for (const { name, y } of found.curves)
      this.chart(`Training: ${name}`, found.epoch, [[name, y]], { x: "epoch", best: found.best, narrow: true });
  }

  chart(title, x, lines, options) {
    const box = el("div", {
      class: "chart",
      role: "img",
      "aria-label": `${title}: ${lines.map(([name]) => name).join(", ")}`,
    });
    const csv = options.csv ?? [
      [options.x, ...lines.map(([name]) => name)],
      () => x.map((one, at) => [one, ...lines.map(([, values]) => values[at])]),
    ];
    const content = el("div", {}, box, chartTable(title, ...csv));
    this.grid.append(this.card(title, content, { csv, note: options.note }));
    const markedAt = () => (options.marked ? this.threshold : options.best);
    this.charts.push({ plot: lineChart(box, x, lines, options, markedAt), box, marked: options.marked });
  }

  resize() {
    for (const { plot, box } of this.charts)
      if (box.clientWidth) plot.setSize({ width: box.clientWidth, height: HEIGHT_OF_CHART });
  }

  cellsAt(row) {
    const { classes, total } = this.judge.matrix;
    const size = classes.length;
    return classes.map((_, column) => {
      const cell = row * size + column;
      return { total: total[cell], removed: this.removed[this.at * size * size + cell] };
    });
  }

  drawMatrix() {
    if (!this.judge.matrix) return;
    const { classes } = this.judge.matrix;
    const rows = classes.map((name, row) =>
      el(
        "tr",
        {},
        el("th", { scope: "row" }, said(name, { title: name })),
        ...this.cellsAt(row).map(({ total, removed }, column) => {
          const share = total ? removed / total : 0;
          const cell = el(
            "td",
            { class: row === column ? "number same" : "number", title: `${removed} of ${total} edges removed` },
            el("span", { text: total ? `${Math.round(100 * share)} %` : "–" }),
            el("small", { text: total ? `${removed.toLocaleString("en")} of ${total.toLocaleString("en")}` : "" }),
          );
          // no stronger, so that the numbers can be read on it
          cell.style.background = `color-mix(in srgb, var(--noise) ${Math.round(35 * share)}%, transparent)`;
          return cell;
        }),
      ),
    );
    const header = el(
      "tr",
      {},
      el("th", { scope: "col", text: "target, neighbour →" }),
      ...classes.map((name) => el("th", { scope: "col" }, said(name, { title: name }))),
    );
    this.matrix.replaceChildren(
      el("p", {
        class: "quiet",
        text: `Share of the edges from each class to each that threshold ${thresholdText(this.about.thresholds[this.at])} removes. Classes are labels as they are given, or predictions where no label is known; homophily above is by the true labels where these are known.`,
      }),
      el(
        "div",
        { class: "scroll", tabindex: 0, role: "region", "aria-label": "Removed edges by class" },
        el("table", { class: "matrix" }, el("thead", {}, header), el("tbody", {}, ...rows)),
      ),
    );
  }

  matrixCsv() {
    const { classes } = this.judge.matrix;
    return [
      ["class", "neighbour_class", "edges", "removed"],
      () =>
        classes.flatMap((name, row) =>
          this.cellsAt(row).map(({ total, removed }, column) => [name, classes[column], total, removed]),
        ),
    ];
  }

  tables() {
    const { tables, remark } = this.judge.scores;
    for (const { title, header, rows } of tables) {
      const table = plainTable(header, rows, { name: title });
      const wide = header.length > 4;
      this.grid.append(
        this.card(title, table, {
          wide,
          csv: [header, () => rows],
          note: title === "Scores" ? remark || "At the model's own threshold." : "",
        }),
      );
    }
  }

  settings() {
    const rows = this.judge.settings;
    const changed = rows.filter(([, value, usual]) => value !== usual);
    const header = ["setting", "value", "default"];
    const content = el(
      "div",
      {},
      changed.length ? plainTable(header, changed, { name: "Changed settings" }) : el("p", { text: "All defaults." }),
      el(
        "details",
        {},
        el("summary", { text: `All ${rows.length} settings` }),
        plainTable(header, rows, { name: "All settings" }),
      ),
    );
    this.grid.append(this.card("Settings", content, { csv: [header, () => rows] }));
  }
}
