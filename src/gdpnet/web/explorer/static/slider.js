// The threshold: a slider below the histogram of keep probabilities.
import { el, svg, counted, percent, share, thresholdText } from "./dom.js";
import { state, update } from "./state.js";

const HEIGHT = 44;

export function nearestThreshold(grid, value) {
  let best = 0;
  grid.forEach((one, place) => {
    if (Math.abs(one - value) < Math.abs(grid[best] - value)) best = place;
  });
  return best;
}

export class Slider {
  constructor(about, judge, name) {
    this.about = about;
    this.input = el("input", {
      type: "range",
      min: 0,
      max: about.thresholds.length - 1,
      step: 1,
      "aria-label": "Threshold of the keep probability",
      oninput: () => update({ threshold: about.thresholds[Number(this.input.value)] }),
    });
    this.words = el("output", { class: "words" });
    this.reset = el("button", {
      type: "button",
      class: "small",
      text: `Model's own (${thresholdText(about.threshold)})`,
      title: about.reason,
      onclick: () => update({ threshold: null }),
    });
    this.bars = [];
    this.scale = el("span", { text: "keep probability" });
    this.node = el(
      "div",
      { class: "threshold" },
      el("div", { class: "row" }, el("span", { class: "heading", text: name ?? "Threshold" }), this.words, this.reset),
      el("div", { class: "histogram" }, this.input),
      el(
        "div",
        { class: "row quiet axis", "aria-hidden": "true" },
        el("span", { text: "0" }),
        this.scale,
        el("span", { text: "1" }),
      ),
    );
    if (judge) this.judgeBy(judge);
  }

  // Say where the histogram would be what shows it: deciding on every edge of a served graph is work.
  offerJudge(open) {
    const judge = el("button", { type: "button", class: "link", text: "Judge", onclick: open });
    this.offer = el(
      "p",
      { class: "quiet" },
      "Open ",
      judge,
      " to decide on every edge: then a histogram appears here, and more lists.",
    );
    this.input.before(this.offer);
  }

  // Show the histogram, and how many edges each threshold keeps.
  judgeBy(judge) {
    this.judge = judge;
    this.offer?.remove();
    this.input.before(this.histogram());
  }

  histogram() {
    const { bins, other, spurious, edges } = this.judge.histogram;
    const ends = edges ?? Array.from({ length: bins + 1 }, (_, place) => place / bins);
    if (edges) this.scale.textContent = "keep probability, small ones spread out";
    const largest = Math.max(1, ...other.map((count, place) => count + spurious[place]));
    const tall = (count) => (count ? Math.max(1, HEIGHT * Math.sqrt(count / largest)) : 0);
    const picture = svg("svg", {
      viewBox: `0 0 ${bins * 10} ${HEIGHT}`,
      preserveAspectRatio: "none",
      "aria-hidden": "true",
    });
    for (let place = 0; place < bins; place++) {
      const both = tall(other[place] + spurious[place]);
      const noise = other[place] + spurious[place] ? (both * spurious[place]) / (other[place] + spurious[place]) : 0;
      const group = svg(
        "g",
        { "data-from": ends[place] },
        svg("title", {
          text: `${share(ends[place], 2)} to ${share(ends[place + 1], 2)}: ${counted(other[place] + spurious[place], "edge")}`,
        }),
        svg("rect", { class: "any", x: place * 10 + 1, y: HEIGHT - both, width: 8, height: both }),
        svg("rect", { class: "noise", x: place * 10 + 1, y: HEIGHT - noise, width: 8, height: noise }),
      );
      this.bars.push(group);
      picture.append(group);
    }
    return picture;
  }

  show(threshold) {
    const place = nearestThreshold(this.about.thresholds, threshold);
    const all = this.judge?.thresholds.kept.all;
    this.input.value = place;
    const kept = all ? `: ${counted(all[place], "edge")} kept (${percent(all[place] / all[0])})` : "";
    const text = `${thresholdText(this.about.thresholds[place])}${kept}`;
    this.words.textContent = text;
    this.input.setAttribute("aria-valuetext", text);
    this.reset.setAttribute("aria-pressed", String(state.threshold === null));
    for (const bar of this.bars) bar.classList.toggle("below", Number(bar.dataset.from) < threshold);
  }
}
