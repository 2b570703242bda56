// What the picture draws: nodes and edges as cytoscape takes them, and the legend.
import { el, said, shortened } from "./dom.js";
import { classColour, keepColour, placeAround, themed } from "./colours.js";

const SIZES = [38, 26, 15];

// The known class of a node if its ring shows it: if another one is predicted.
function ringClass(store, place) {
  if (store.about.task !== "classification") return null;
  const [predicted, label] = [store.name("predicted", place), store.name("label", place)];
  return predicted !== null && label !== predicted ? label : null;
}

export function nodeElement(store, shape, one) {
  if (one.more !== undefined) {
    const label = one.ring === 1 ? `+ ${one.more} more` : `+${one.more}`;
    return {
      data: {
        id: `more-${one.of}`,
        more: one.more,
        place: one.of,
        label,
        ring: one.ring,
        size: 18,
        fill: themed("paper"),
        edge: themed("paper"),
        border: 0,
      },
      position: { x: one.x, y: one.y },
      classes: "more",
      grabbable: false,
    };
  }
  const { classes } = store.about;
  const ring = ringClass(store, one.place);
  const small = one.ring === 2 && shape.far > 40;
  const data = {
    id: `n${one.place}`,
    place: one.place,
    ring: one.ring,
    size: SIZES[one.ring],
    label: small ? "" : shortened(store.ids[one.place], one.ring === 2 ? 10 : 18),
    fill: classColour(classes, store.name("predicted", one.place)),
    edge: ring !== null ? classColour(classes, ring) : themed("paper"),
    border: ring !== null ? (one.ring === 2 ? 3 : 5) : 1.5,
  };
  const corrupted = store.node("corrupted");
  return {
    data,
    position: { x: one.x, y: one.y },
    classes: [`ring${one.ring}`, corrupted && corrupted[one.place] ? "corrupted" : ""].join(" "),
  };
}

export function edgeElement(store, one) {
  const keep = store.link("keep")[one.edge];
  const noise = store.link("spurious");
  const level = placeAround(store.about, keep);
  const data = {
    id: `e${one.edge}`,
    edge: one.edge,
    source: `n${one.source}`,
    target: `n${one.target}`,
    keep,
    colour: keepColour(level),
    width: one.own ? 1.5 + 5.5 * level : 0.8 + 2.2 * level,
    label: noise && noise[one.edge] ? "✕" : "",
  };
  return { data, classes: [one.own ? "own" : "other", one.arrow ? "arrow" : ""].join(" ") };
}

// What the colours and marks mean, as far as there are some in the picture.
export function legendOf(store, shape) {
  const places = shape.nodes.filter((one) => one.place !== undefined).map((one) => one.place);
  const present = new Set(places.flatMap((place) => [store.name("predicted", place), ringClass(store, place)]));
  const classes = store.about.classes.filter((name) => present.has(name));
  const parts = classes.map((name) => {
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = classColour(store.about.classes, name);
    return el("span", {}, dot, said(shortened(name, 28)));
  });
  if (store.about.task === "classification")
    parts.push(
      el("span", {}, el("span", { class: "ring", "aria-hidden": "true" }), "ring: known class, if it differs"),
    );
  parts.push(el("span", {}, "drop", el("span", { class: "scale", "aria-hidden": "true" }), "keep"));
  parts.push(el("span", {}, el("span", { class: "dash", "aria-hidden": "true" }), "below the threshold"));
  if (store.truthKnown()) parts.push(el("span", {}, el("b", { class: "noise", text: "✕" }), "planted noise"));
  if (store.node("corrupted")?.some((one) => one))
    parts.push(el("span", {}, el("b", { text: "◆" }), "planted features"));
  return parts;
}
