// See: the neighbourhood of a node, drawn by cytoscape; before and after, side by side or as decisions.
import { el, said, byId, tell, counted, save, fileName, segmented, share, thresholdText, keepingFocus } from "./dom.js";
import { state, update } from "./state.js";
import { themed } from "./colours.js";
import { neighbourhoodOf, missing, spread, PADDING } from "./layout.js";
import { nodeElement, edgeElement, legendOf } from "./elements.js";
import { networkStyle } from "./network_style.js";
import { pictureOf } from "./saved_picture.js";

const VIEWS = [
  ["decisions", "Decisions"],
  ["before", "Before"],
  ["after", "After"],
  ["both", "Side by side"],
];
const LARGEST = 2; // zoom of a picture that is fitted
const MORE = 60; // neighbours that are drawn in addition when they are asked for
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
    this.note = el("p", { class: "note", hidden: true });
    this.brief = el("div", { class: "brief row" });
    this.tip = el("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    // over the picture, whose size it must not change: it would be fitted again
    const frame = el("div", { class: "frame" }, this.stage, el("div", { class: "over" }, this.note));
    byId("see").append(this.head, frame, this.brief, this.legend, slider.node, this.tip);
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
    const first = state.view === "after" ? (edge) => store.isKept(edge, this.source.threshold()) : () => false;
    this.shape = neighbourhoodOf(store, centre, Number(state.hops), this.more, first);
    this.say("");
    this.drawHead();
    const views = state.view === "both" ? ["before", "after"] : [state.view];
    this.stage.classList.toggle("two", views.length === 2);
    const figures = views.map((view) => this.figure(view));
    this.stage.replaceChildren(...figures.map((one) => one.figure));
    this.legend.replaceChildren(...legendOf(this.store, this.shape)); // before the networks, which fill what is left of the height
    spread(store, this.shape, figures[0].canvas);
    this.panes = figures.map((one) => ({ ...one, cy: this.network(one.canvas) }));
    this.fit();
    if (this.panes.length === 2) this.together();
    this.follow(this.source.threshold());
  }

  drawHead() {
    const id = this.store.ids[this.centre];
    const hidden = this.hidden();
    this.head.replaceChildren(
      el("h2", {}, el("span", { text: "Node " }), said(id)),
      segmented("Hops", HOPS, state.hops, (hops) => update({ hops })),
      segmented("View", VIEWS, state.view, (view) => update({ view })),
      el(
        "span",
        { class: "buttons" },
        hidden
          ? el("button", {
              type: "button",
              class: "small",
              id: "more",
              text: `Show ${Math.min(MORE, hidden)} more`,
              title: `${counted(hidden, "neighbour")} not drawn`,
              onclick: () => this.drawMore(),
            })
          : null,
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
      layout: { name: "preset", fit: false },
      style: networkStyle(this.shape.scale),
      minZoom: 0.02, // a wide picture on a phone is fitted far below the zoom at which texts are read
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
    const drawn = this.shape.edges.filter((one) => one.own);
    const drawnKept = drawn.filter((one) => this.store.isKept(one.edge, threshold)).length;
    const part = missing(this.store, this.centre) ? " on this page" : "";
    const edges = `${counted(own, "edge")}${part}${this.store.about.directed ? " in and out" : ""}`;
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
        (view === "before" ? edges : `${kept} of ${edges} kept`) +
        (own > drawn.length ? `, ${view === "after" ? drawnKept : drawn.length} drawn` : "");
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
    // where Why is another panel, what was chosen is said here
    const words = this.source.chosenWords();
    const quiet = this.shape.edges.some((one) => one.own) ? "Tap a neighbour: its edge is described here." : "No edges.";
    const why = { type: "button", class: "small", text: "Why", onclick: () => this.source.showEvidence() };
    this.brief.replaceChildren(
      el("span", { class: words ? null : "quiet" }, ...(words ?? [quiet])),
      ...(words ? [el("button", why)] : []),
    );
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
    else if (data.place !== this.centre) this.say(`Node ${this.store.ids[data.place]}: double-click to go there.`);
  }

  showMore(data) {
    if (data.place !== this.centre) return this.go(data.place);
    if (!this.hidden()) return this.say("These neighbours are not on this page.");
    return this.drawMore();
  }

  // Neighbours on the page that are not drawn.
  hidden() {
    const drawn = this.shape.nodes.filter((one) => one.ring === 1 && one.more === undefined).length;
    return this.store.neighboursOf(this.centre).size - drawn;
  }

  drawMore() {
    this.more += MORE;
    keepingFocus(() => this.draw(this.store, this.centre));
  }

  // Say what a click led to, for all to see.
  say(text) {
    this.note.textContent = text;
    this.note.hidden = !text;
    if (text) tell(text);
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
      if (cy.zoom() > LARGEST) {
        cy.zoom(LARGEST); // one node alone would fill the panel
        cy.center();
      }
    }
  }

  showTip(event) {
    const data = event.target.data();
    const { store } = this;
    const lines = [];
    if (event.target.isEdge()) {
      const ends = ["source", "target"].map((end) => store.ids[Number(data[end].slice(1))]);
      lines.push(`${ends[0]} ${store.about.directed ? "→" : "–"} ${ends[1]}`, `keep probability ${share(data.keep)}`);
      if (store.link("genuine")) lines.push(`genuine probability ${share(store.link("genuine")[data.edge])}`);
      if (data.label) lines.push("planted noise");
    } else if (data.more !== undefined) lines.push(`${counted(data.more, "neighbour")} not drawn`);
    else {
      lines.push(store.ids[data.place], `predicted ${store.name("predicted", data.place) ?? "–"}`);
      lines.push(
        `label ${store.name("label", data.place) ?? "–"}`,
        counted(store.node("degree")[data.place], "neighbour"),
      );
    }
    this.tip.replaceChildren(...lines.map((line) => el("div", {}, said(line))));
    const { clientX, clientY } = event.originalEvent;
    this.tip.hidden = false;
    this.tip.style.left = `${Math.min(clientX + 14, innerWidth - this.tip.offsetWidth - 8)}px`;
    this.tip.style.top = `${Math.min(clientY + 14, innerHeight - this.tip.offsetHeight - 8)}px`;
  }

  hideTip() {
    this.tip.hidden = true;
  }

  async savePicture() {
    const titles = this.panes.map(
      ({ view }) => `${this.store.ids[this.centre]} · ${TITLES[view]} · threshold ${thresholdText(this.source.threshold())}`,
    );
    const canvas = await pictureOf(
      this.panes.map(({ cy }) => cy),
      titles,
      [...this.legend.children],
    );
    const blob = await new Promise((done) => canvas.toBlob(done, "image/png"));
    save(blob, fileName(`node-${this.store.ids[this.centre]}`, "png"));
    this.say("The picture is saved.");
  }
}
