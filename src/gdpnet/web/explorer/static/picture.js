// See: the neighbourhood of a node, drawn by cytoscape; before and after, side by side or as decisions.
import { el, byId, tell, counted, save, fileName, segmented, number, loadedPicture } from "./dom.js";
import { state, update } from "./state.js";
import { themed } from "./colours.js";
import { neighbourhoodOf, missing, spread, PADDING } from "./layout.js";
import { nodeElement, edgeElement, legendOf } from "./elements.js";
import { networkStyle } from "./network_style.js";

const VIEWS = [
  ["decisions", "Decisions"],
  ["before", "Before"],
  ["after", "After"],
  ["both", "Side by side"],
];
const HOPS = [
  ["1", "1 hop"],
  ["2", "2 hops"],
];
const TITLES = {
  decisions: "Decisions on the edges",
  before: "Before: the graph as it is",
  after: "After: the cleaned graph",
};

export class Picture {
  constructor(source, slider) {
    this.source = source;
    this.slider = slider;
    this.panes = [];
    this.more = 0;
    this.head = el("div", { class: "row head" });
    this.stage = el("div", { class: "stage" });
    this.legend = el("div", { class: "legend quiet" });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    byId("see").append(this.head, this.stage, this.legend, slider.node, this.tip);
    new ResizeObserver(() => this.fit()).observe(this.stage);
  }

  destroy() {
    for (const pane of this.panes) pane.cy.destroy();
    this.panes = [];
  }

  // Draw another node, another view or more neighbours.
  draw(store, centre) {
    this.destroy();
    if (this.centre !== centre || this.store !== store) this.more = 0;
    [this.store, this.centre] = [store, centre];
    this.shape = neighbourhoodOf(store, centre, Number(state.hops), this.more);
    this.drawHead();
    const views = state.view === "both" ? ["before", "after"] : [state.view];
    this.stage.classList.toggle("two", views.length === 2);
    const figures = views.map((view) => this.figure(view));
    this.stage.replaceChildren(...figures.map((one) => one.figure));
    this.legend.replaceChildren(...legendOf(this.store, this.shape)); // before the networks, which fill what is left of the height
    spread(store, this.shape, figures[0].canvas);
    this.panes = figures.map((one) => ({ ...one, cy: this.network(one.canvas) }));
    if (this.panes.length === 2) this.together();
    this.follow(this.source.threshold());
  }

  drawHead() {
    const id = this.store.ids[this.centre];
    this.head.replaceChildren(
      el("h2", {}, el("span", { text: "Node " }), el("bdi", { text: id })),
      segmented("Hops", HOPS, state.hops, (hops) => update({ hops })),
      segmented("View", VIEWS, state.view, (view) => update({ view })),
      el(
        "span",
        { class: "buttons" },
        el("button", {
          type: "button",
          class: "small",
          text: "Fit",
          title: "Show the whole picture",
          onclick: () => this.fit(),
        }),
        el("button", {
          type: "button",
          class: "small",
          id: "png",
          text: "PNG",
          title: "Download the picture",
          "aria-label": "Download the picture as PNG",
          onclick: () => this.savePicture(),
        }),
      ),
    );
  }

  figure(view) {
    const canvas = el("div", {
      class: "canvas",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "network",
      onkeydown: (event) => this.onKey(event),
    });
    const caption = el("figcaption", {});
    return { view, canvas, caption, figure: el("figure", {}, caption, canvas) };
  }

  network(container) {
    const cy = cytoscape({
      container,
      elements: [
        ...this.shape.nodes.map((one) => nodeElement(this.store, this.shape, one)),
        ...this.shape.edges.map((one) => edgeElement(this.store, one)),
      ],
      layout: { name: "preset", fit: true, padding: PADDING },
      style: networkStyle(this.shape.scale),
      minZoom: 0.15,
      maxZoom: 4,
      autoungrabify: false,
      boxSelectionEnabled: false,
    });
    cy.on("tap", "node", (event) => this.onTap(event.target.data()));
    cy.on("tap", "edge", (event) => this.onTapEdge(event.target.data()));
    cy.on("dbltap", "node", (event) => this.go(event.target.data("place")));
    cy.on("mouseover", "node, edge", (event) => this.showTip(event));
    cy.on("mouseout pan zoom", () => this.hideTip());
    return cy;
  }

  // Follow the threshold, without moving anything.
  follow(threshold) {
    const around = [...this.store.neighboursOf(this.centre).values()];
    const own = around.length;
    const kept = around.filter((edge) => this.store.isKept(edge, threshold)).length;
    const drawn = this.shape.edges.filter((one) => one.own).length;
    for (const { cy, view, canvas, caption } of this.panes) {
      cy.batch(() => {
        for (const one of cy.edges()) {
          const stays = this.store.isKept(one.data("edge"), threshold);
          one.toggleClass("dropped", !stays && view === "decisions");
          one.toggleClass("gone", !stays && view === "after");
          one.toggleClass("plain", view === "before");
        }
        for (const one of cy.nodes(".ring1, .ring2"))
          one.toggleClass("alone", view === "after" && one.connectedEdges().every((edge) => edge.hasClass("gone")));
      });
      const count =
        (view === "before" ? counted(own, "edge") : `${kept} of ${counted(own, "edge")} kept`) +
        (own > drawn ? `, ${drawn} drawn` : "");
      caption.replaceChildren(el("span", { text: TITLES[view] }), el("span", { class: "quiet", text: count }));
      canvas.setAttribute(
        "aria-label",
        `${TITLES[view]} of node ${this.store.ids[this.centre]}: ${count}. The table of the episode has the same edges. Arrow keys choose a neighbour, Enter goes to it.`,
      );
    }
    this.mark();
  }

  mark() {
    const chosen = this.source.chosenNeighbour();
    for (const { cy } of this.panes) {
      cy.elements(".chosen").removeClass("chosen");
      if (chosen === null) continue;
      const node = cy.$id(`n${chosen}`);
      node.addClass("chosen");
      node.edgesWith(cy.$id(`n${this.centre}`)).addClass("chosen");
    }
  }

  together() {
    const [left, right] = this.panes.map((one) => one.cy);
    let busy = false;
    const copy = (from, to) => () => {
      if (busy) return;
      busy = true;
      to.viewport({ zoom: from.zoom(), pan: from.pan() });
      busy = false;
    };
    left.on("pan zoom", copy(left, right));
    right.on("pan zoom", copy(right, left));
    left.on("position", "node", (event) => right.$id(event.target.id()).position(event.target.position()));
  }

  onTap(data) {
    if (data.more !== undefined) this.showMore(data);
    else if (data.place !== this.centre && data.ring === 1) this.source.chooseNeighbour(data.place);
    else if (data.place !== this.centre) tell(`node ${this.store.ids[data.place]}: double-click to go there`);
  }

  showMore(data) {
    if (data.place !== this.centre) return this.go(data.place);
    if (data.more <= missing(this.store, this.centre)) return tell("these neighbours are not on this page");
    this.more += 60;
    return this.draw(this.store, this.centre);
  }

  onTapEdge({ source, target }) {
    const ends = [source, target].map((one) => Number(one.slice(1)));
    if (ends.includes(this.centre)) this.source.chooseNeighbour(ends.find((one) => one !== this.centre));
  }

  go(place) {
    if (place !== this.centre) update({ node: this.store.ids[place], step: null });
  }

  onKey(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) this.source.moveStep(step);
    else if (event.key === "Enter" && this.source.chosenNeighbour() !== null) this.go(this.source.chosenNeighbour());
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  zoom(factor) {
    const { cy } = this.panes[0];
    cy.zoom({ level: cy.zoom() * factor, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  }

  fit() {
    for (const { cy } of this.panes) {
      cy.resize();
      cy.fit(undefined, PADDING);
    }
  }

  showTip(event) {
    const data = event.target.data();
    const { store } = this;
    const lines = [];
    if (event.target.isEdge()) {
      const ends = ["source", "target"].map((end) => store.ids[Number(data[end].slice(1))]);
      lines.push(`${ends[0]} ${store.about.directed ? "→" : "–"} ${ends[1]}`, `keep probability ${number(data.keep)}`);
      if (store.link("genuine")) lines.push(`genuine probability ${number(store.link("genuine")[data.edge])}`);
      if (data.label) lines.push("planted noise");
    } else if (data.more !== undefined) lines.push(`${counted(data.more, "neighbour")} not drawn`);
    else {
      lines.push(store.ids[data.place], `predicted ${store.name("predicted", data.place) ?? "–"}`);
      lines.push(
        `label ${store.name("label", data.place) ?? "–"}`,
        counted(store.node("degree")[data.place], "neighbour"),
      );
    }
    this.tip.replaceChildren(...lines.map((line) => el("div", {}, el("bdi", { text: line }))));
    const { clientX, clientY } = event.originalEvent;
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(clientX + 14, innerWidth - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.min(clientY + 14, innerHeight - this.tip.offsetHeight - 8)}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  // The pictures that are shown, beside each other, with what they are.
  async savePicture() {
    const drawn = await Promise.all(
      this.panes.map(({ cy }) =>
        loadedPicture(cy.png({ output: "base64uri", full: true, scale: 2, bg: themed("paper"), maxWidth: 3000 })),
      ),
    );
    const height = Math.max(...drawn.map((one) => one.height)) + 60;
    const canvas = el("canvas", { width: drawn.reduce((sum, one) => sum + one.width, 0), height });
    const context = canvas.getContext("2d");
    context.fillStyle = themed("paper");
    context.fillRect(0, 0, canvas.width, height);
    context.font = "26px system-ui, sans-serif";
    let left = 0;
    drawn.forEach((one, place) => {
      context.fillStyle = themed("ink");
      context.fillText(
        `${this.store.ids[this.centre]} · ${TITLES[this.panes[place].view]} · threshold ${number(this.source.threshold(), 2)}`,
        left + 16,
        38,
        one.width - 24,
      );
      context.drawImage(one, left, 60);
      left += one.width;
    });
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    save(blob, fileName(`node-${this.store.ids[this.centre]}`, "png"));
    tell("the picture is saved");
  }
}
