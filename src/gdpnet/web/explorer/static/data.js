// The data of the page: columns decoded once, and the questions that the views ask.

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };
const MISSING = 65535;

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

export function decoded(column) {
  if (column === null || column === undefined) return null;
  if (column.type === "names") return { names: column.names, code: decoded(column.code) };
  const bytes = bytesOf(column.data);
  if (column.type !== "share") return new ARRAYS[column.type](bytes.buffer);
  const values = new Float32Array(bytes.length / 2);
  const codes = new Uint16Array(bytes.buffer);
  for (let i = 0; i < codes.length; i++) values[i] = codes[i] === MISSING ? NaN : codes[i] / (MISSING - 1);
  return values;
}

function lazily(columns) {
  const known = new Map();
  return (name) => {
    if (!known.has(name)) known.set(name, decoded(columns[name]));
    return known.get(name);
  };
}

const SPLITS = ["no split", "training", "validation", "test"];

export class Store {
  constructor(payload) {
    this.about = payload.about;
    this.raw = payload.nodes;
    this.ids = payload.nodes.id;
    this.node = lazily(payload.nodes);
    this.link = lazily(payload.links);
    this.step = lazily(payload.steps);
    const features = payload.steps.edge_features;
    this.featureNames = features ? features.names : [];
    this.features = features ? decoded(features.values) : null;
    this.place = new Map(this.ids.map((id, place) => [id, place]));
    this.quantiles = new Map();
  }

  name(column, place) {
    const { names, code } = this.node(column) ?? { names: [], code: [0] };
    return code[place] ? names[code[place] - 1] : null;
  }

  splitOf(place) {
    return SPLITS[this.node("split")[place]];
  }

  truthKnown() {
    return this.link("spurious") !== null && this.link("spurious").some((one) => one);
  }

  isKept(edge, threshold) {
    return this.link("keep")[edge] >= Math.fround(threshold);
  }

  edgesOf(place) {
    const ends = this.link("row_ptr");
    return [ends[place], ends[place + 1]];
  }

  findEdge(target, neighbour) {
    const [first, last] = this.edgesOf(target);
    const column = this.link("neighbour");
    for (let edge = first; edge < last; edge++) if (column[edge] === neighbour) return edge;
    return -1;
  }

  // The neighbours of a node whose edges lead to it, each with its edge.
  incoming(place) {
    const [first, last] = this.edgesOf(place);
    const column = this.link("neighbour");
    const found = new Map();
    for (let edge = first; edge < last; edge++) found.set(column[edge], edge);
    return found;
  }

  // The neighbours of a node by edges in either direction, each with the edge that is drawn.
  neighboursOf(place) {
    const found = this.incoming(place);
    if (this.about.directed) {
      for (const [target, edge] of this.outgoing(place)) if (!found.has(target)) found.set(target, edge);
    }
    return found;
  }

  outgoing(place) {
    if (!this.outward) {
      this.outward = new Map();
      const column = this.link("neighbour");
      for (let target = 0; target < this.ids.length; target++) {
        const [first, last] = this.edgesOf(target);
        for (let edge = first; edge < last; edge++) {
          const source = column[edge];
          if (!this.outward.has(source)) this.outward.set(source, []);
          this.outward.get(source).push([target, edge]);
        }
      }
    }
    return this.outward.get(place) ?? [];
  }

  hasEpisode(place) {
    return !Number.isNaN(this.node("alone")[place]);
  }

  // The decisions of a node, in the order of its explanation.
  decisionsOf(place) {
    const names = [
      "neighbour",
      "step",
      "distance",
      "draw_probability",
      "keep_probability",
      "keep_by_node",
      "keep_by_neighbour",
      "contribution",
      "common_neighbours",
      "cosine",
      "agreement",
    ];
    const step = Object.fromEntries(names.map((name) => [name, this.step(name)]));
    const [keep, genuine, weight] = ["keep", "genuine", "weight"].map((name) => this.link(name));
    const edges = this.incoming(place);
    const ends = this.step("row_ptr");
    const rows = [];
    for (let row = ends[place]; row < ends[place + 1]; row++) {
      const neighbour = step.neighbour[row];
      const distance = step.distance ? step.distance[row] : 1;
      const edge = distance === 1 ? (edges.get(neighbour) ?? -1) : -1;
      rows.push({
        row,
        neighbour,
        id: this.ids[neighbour],
        edge,
        distance,
        step: step.step[row],
        draw: step.draw_probability[row],
        keep: edge >= 0 ? keep[edge] : step.keep_probability ? step.keep_probability[row] : NaN,
        byNode: step.keep_by_node[row],
        byNeighbour: step.keep_by_neighbour[row],
        genuine: genuine && edge >= 0 ? genuine[edge] : NaN,
        adds: step.contribution[row],
        common: step.common_neighbours[row],
        cosine: step.cosine[row],
        agreement: step.agreement[row],
        weight: weight && edge >= 0 ? weight[edge] : NaN,
      });
    }
    return rows;
  }

  featuresOf(row) {
    const width = this.featureNames.length;
    return this.featureNames.map((name, column) => [name, this.features[row * width + column]]);
  }

  probabilitiesOf(place) {
    const all = this.node("probabilities");
    if (!all) return [];
    const width = this.about.classes.length;
    return this.about.classes.map((name, column) => [name, all[place * width + column]]);
  }

  headsOf(place) {
    this.heads ??= this.raw.heads.map((one) => ({
      ...one,
      value: decoded(one.value),
      predicted: decoded(one.predicted),
    }));
    return this.heads.map(({ name, weight, value, predicted }) => ({
      name,
      weight,
      value: value[place],
      predicted: predicted.code[place] ? predicted.names[predicted.code[place] - 1] : null,
    }));
  }

  // The share of all edges whose evidence is weaker; NaN if the page does not have all edges.
  shareBelow(name, value) {
    if (!this.about.whole) return NaN;
    if (!this.quantiles.has(name)) this.quantiles.set(name, Float32Array.from(this.step(name)).sort());
    const values = this.quantiles.get(name);
    let [low, high] = [0, values.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (values[middle] < value) low = middle + 1;
      else high = middle;
    }
    return values.length ? low / values.length : NaN;
  }

  // All matches, the best ones first: equal ids, those that begin with the text, those that have it, classes.
  search(text) {
    const wanted = text.trim().toLowerCase();
    if (!wanted) return [];
    const ranked = [[], [], [], []];
    const classes = ["label", "predicted"].map((column) => this.matching(column, wanted));
    for (let place = 0; place < this.ids.length; place++) {
      const id = this.lowerIds()[place];
      const at = id.indexOf(wanted);
      if (at >= 0) ranked[id.length === wanted.length ? 0 : at === 0 ? 1 : 2].push(place);
      else if (classes.some(([set, code]) => set.has(code[place]))) ranked[3].push(place);
    }
    return ranked.flat();
  }

  matching(column, wanted) {
    const { names, code } = this.node(column);
    return [new Set(names.flatMap((name, at) => (name.toLowerCase().includes(wanted) ? [at + 1] : []))), code];
  }

  lowerIds() {
    this.lower ??= this.ids.map((id) => id.toLowerCase());
    return this.lower;
  }

  // The nodes that lose most edges at a threshold.
  mostRemoved(threshold, most = 50) {
    const [ends, keep, least] = [this.link("row_ptr"), this.link("keep"), Math.fround(threshold)];
    const rows = [];
    const degree = this.node("degree");
    for (let place = 0; place < this.ids.length; place++) {
      if (ends[place + 1] - ends[place] < degree[place]) continue; // a part of its edges says little of the node
      let count = 0;
      for (let edge = ends[place]; edge < ends[place + 1]; edge++) if (keep[edge] < least) count += 1;
      if (count) rows.push([count, place, ends[place + 1] - ends[place]]);
    }
    rows.sort((one, other) => other[0] - one[0] || one[1] - other[1]);
    return rows
      .slice(0, most)
      .map(([count, place, degree]) => ({ id: this.ids[place], text: `${count} of ${degree} edges` }));
  }
}
