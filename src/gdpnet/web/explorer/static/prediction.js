// The prediction of a node: what is known of it, the probability of each class, and what each head says.
import { el, said, bar, number, counted } from "./dom.js";
import { classColour } from "./colours.js";

const MOST_CLASSES = 6;

// As `gdpnet explain` says it: a cluster is not the community whose probability is explained.
export function question(store, place) {
  const [own, predicted] = [said(store.ids[place]), said(store.name("predicted", place) ?? "so")];
  if (store.about.task === "clusters") return ["Why is ", own, " in cluster ", predicted, "?"];
  if (store.about.task === "links")
    return ["Why are neighbours of ", own, " predicted to be in community ", predicted, "?"];
  return ["Why is ", own, " predicted ", predicted, "?"];
}

// What the number is that is explained; of a node that was not explained itself, that of its predicted class.
export function explainedWords(store, place) {
  const { task } = store.about;
  // a number has no class that is explained
  const explained =
    store.name("explained", place) || (task === "classification" ? store.name("predicted", place) : null);
  if (!explained) return [task === "regression" ? "Predicted: " : "Largest probability: "];
  return [`Probability of ${["links", "clusters"].includes(task) ? "community " : ""}`, said(explained), ": "];
}

export function chips(store, place) {
  const [predicted, label] = [store.name("predicted", place), store.name("label", place)];
  const found = [];
  const kind = { clusters: "cluster", links: "neighbours in community" }[store.about.task] ?? "predicted";
  if (predicted !== null) found.push(chip(kind, predicted, classColour(store.about.classes, predicted)));
  found.push(
    label === null
      ? el("span", { class: "chip", text: "no known label" })
      : chip("label", label, classColour(store.about.classes, label)),
  );
  if (label !== null && predicted !== null && store.about.task === "classification") {
    found.push(
      el("span", {
        class: `chip ${label === predicted ? "good" : "bad"}`,
        text: label === predicted ? "✓ agrees" : "✗ differs",
      }),
    );
  }
  found.push(
    el("span", { class: "chip", text: store.splitOf(place) }),
    el("span", {
      class: "chip",
      text: counted(store.node("degree")[place], store.about.directed ? "incoming edge" : "neighbour"),
    }),
  );
  const suggested = store.name("suggested", place);
  if (suggested !== null) found.push(el("span", { class: "chip bad" }, "suspected label; rather ", said(suggested)));
  const clean = store.name("clean_label", place);
  if (clean !== null && label !== null && clean !== label)
    found.push(el("span", { class: "chip noise" }, "✕ planted label; truly ", said(clean)));
  if (store.node("corrupted")?.[place]) found.push(el("span", { class: "chip noise", text: "✕ planted features" }));
  return el("div", { class: "chips" }, ...found);
}

function chip(what, text, colour) {
  const dot = el("span", { class: "dot", "aria-hidden": "true" });
  dot.style.background = colour;
  return el("span", { class: "chip" }, dot, `${what} `, said(text));
}

export function classBars(store, place) {
  const all = store.probabilitiesOf(place).sort((one, other) => other[1] - one[1]);
  if (all.length < 2) return null;
  const rows = all.slice(0, MOST_CLASSES).map(([name, value]) => {
    const level = bar(value, `${number(value)}`);
    level.querySelector(".level").style.fill = classColour(store.about.classes, name);
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, said(name, { title: name })),
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

export function headTable(store, place) {
  const heads = store.headsOf(place).filter((one) => one.predicted !== null);
  if (!heads.length) return null;
  const chance = store.about.task !== "regression";
  const rows = heads.map((one) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", text: one.name }),
      el("td", { class: "number", text: one.weight.toFixed(2) }),
      el("td", {}, said(one.predicted, { title: one.predicted })),
      el("td", { class: "wide" }, chance ? bar(one.value, number(one.value)) : null),
      el("td", { class: "number", text: number(one.value) }),
    ),
  );
  const header = ["head", "weight", "says", "", chance ? "probability" : "number"];
  return section(
    "What each head says",
    el(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "What each head says" },
      el(
        "table",
        { class: "bars heads" },
        el("thead", {}, el("tr", {}, ...header.map((text) => el("th", { scope: "col", text })))),
        el("tbody", {}, ...rows),
      ),
    ),
  );
}

function section(title, content) {
  return el("section", { "aria-label": title }, el("h3", { text: title }), content);
}
