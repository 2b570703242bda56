// The evidence for an edge: both probabilities, and what its nodes have in common, in words and bars.
import { el, said, bar, number, share, thresholdText, change, counted, percent } from "./dom.js";
import { update } from "./state.js";

export function evidenceCard(store, decisions, one, action, threshold) {
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
      action,
      ` at threshold ${thresholdText(threshold)} · adds `,
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
    el("p", { class: "words", text: inWords(store, one) }),
    el("table", { class: "bars" }, el("tbody", {}, ...evidenceRows(store, decisions, one))),
  );
}

function evidenceRows(store, decisions, one) {
  const most = Math.max(1, ...decisions.map((other) => other.common));
  const rows = [
    ["keep probability", one.keep, share(one.keep)],
    ["as this node decides", one.byNode, share(one.byNode)],
    ["as the neighbour decides", one.byNeighbour, share(one.byNeighbour)],
    ["genuine probability", one.genuine, share(one.genuine)],
    ["drawn with probability", one.step ? one.draw : NaN, one.step ? share(one.draw) : "–"],
    ["features shared (cosine)", store.about.features ? one.cosine : NaN, number(one.cosine, 2)],
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
function inWords(store, one) {
  const compared = (name, value) => {
    const below = store.shareBelow(name, value);
    if (below === 0) return " (no edge has less)";
    return Number.isNaN(below) ? "" : ` (higher than for ${percent(below).replace(".0 %", " %")} of all edges)`;
  };
  const parts = [
    one.common
      ? `${counted(one.common, "common neighbour")}${compared("common_neighbours", one.common)}`
      : "no common neighbour",
    ...(store.about.features ? [`feature cosine ${number(one.cosine, 2)}${compared("cosine", one.cosine)}`] : []),
    `${store.about.agreement} ${number(one.agreement, 2)}${compared("agreement", one.agreement)}`,
  ];
  const text = parts.join("; ");
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
