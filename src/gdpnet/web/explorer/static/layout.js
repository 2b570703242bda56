// Which nodes around a node are drawn, and where: rings, the neighbours of a class beside each other.

const FIRST = 60;
const SECOND = 90;

export const PADDING = 20; // between the picture and the edge of its panel
const READABLE = 1.1; // zoom at which texts are easily read
const LETTERS = 18; // of the longest text

// The neighbours that are shown: the edges that come first, those that add most, then those that are most surely kept.
function chosen(store, centre, most, first) {
  const adds = new Map(store.decisionsOf(centre).map((one) => [one.neighbour, Math.abs(one.adds)]));
  const all = [...store.neighboursOf(centre)];
  const keep = store.link("keep");
  all.sort(
    ([one, edge], [other, another]) =>
      first(another) - first(edge) ||
      (adds.get(other) ?? 0) - (adds.get(one) ?? 0) || keep[another] - keep[edge] || one - other,
  );
  return [new Map(all.slice(0, most)), all.length];
}

function farther(store, centre, near) {
  const parents = new Map();
  const left = new Map();
  const each = Math.max(2, Math.floor(SECOND / Math.max(1, near.size)));
  const keep = store.link("keep");
  const direct = store.neighboursOf(centre); // of a large node more than are drawn, none of which is farther away
  const around = (parent) =>
    [...store.neighboursOf(parent)].filter(
      ([place]) => place !== centre && !direct.has(place) && !parents.has(place),
    );
  for (const parent of near.keys()) {
    const all = around(parent).sort(([, edge], [, other]) => keep[other] - keep[edge]);
    for (const [place, edge] of all.slice(0, each)) parents.set(place, [parent, edge]);
  }
  // counted when all are placed: what another neighbour has shown is not hidden
  for (const parent of near.keys()) {
    const hidden = around(parent).length + missing(store, parent);
    if (hidden) left.set(parent, hidden);
  }
  return [parents, left];
}

// Neighbours of a node that are not on this page.
export function missing(store, place) {
  const [first, last] = store.edgesOf(place);
  return store.node("degree")[place] - (last - first);
}

function byClass(store, near) {
  const { code } = store.node("predicted");
  const keep = store.link("keep");
  return [...near].sort(
    ([one, edge], [other, another]) => code[one] - code[other] || keep[another] - keep[edge] || one - other,
  );
}

// Return the nodes and edges of the picture around a node, with positions.
export function neighbourhoodOf(store, centre, hops, more, first = () => false) {
  const [near, count] = chosen(store, centre, FIRST + more, first);
  const [far, left] = hops === 2 ? farther(store, centre, near) : [new Map(), new Map()];
  const children = new Map();
  for (const [place, [parent]] of far) children.set(parent, [...(children.get(parent) ?? []), place]);
  const hidden = count - near.size + missing(store, centre);
  const nodes = [{ place: centre, ring: 0, x: 0, y: 0 }];
  const order = byClass(store, near);
  const shares = order.map(([place]) => 1 + 0.6 * (children.get(place)?.length ?? 0) + (left.has(place) ? 0.6 : 0));
  const total = shares.reduce((sum, one) => sum + one, hidden ? 1 : 0);
  const inner = Math.max(150, (order.length + 1) * 7.5);
  const outer = Math.max(inner + 115, (far.size + left.size) * 6);
  let angle = -Math.PI / 2;
  order.forEach(([place], at) => {
    const wide = (2 * Math.PI * shares[at]) / total;
    const middle = angle + wide / 2;
    const radius = inner + (order.length > 18 && at % 2 ? 46 : 0);
    nodes.push({ place, ring: 1, ...polar(radius, middle) });
    const own = children.get(place) ?? [];
    const places = own.length + (left.has(place) ? 1 : 0);
    own.forEach((child, number) =>
      nodes.push({ place: child, ring: 2, ...polar(outer, angle + (wide * (number + 0.5)) / places) }),
    );
    if (left.has(place))
      nodes.push({
        more: left.get(place),
        of: place,
        ring: 2,
        ...polar(outer, angle + (wide * (places - 0.5)) / places),
      });
    angle += wide;
  });
  if (hidden) nodes.push({ more: hidden, of: centre, ring: 1, ...polar(inner, angle + Math.PI / total) });
  const radius = Math.max(...nodes.map((one) => Math.hypot(one.x, one.y)));
  const scale = Math.max(1, Math.min(1.7, radius / 220)); // texts of a wide picture are drawn larger
  return { nodes, edges: edgesBetween(store, nodes, centre), far: far.size, scale };
}

// Move few nodes so that they fill a panel that is too narrow or too low for a circle with readable texts.
export function spread(store, shape, { clientWidth, clientHeight }) {
  const count = [1, 2].map((ring) => shape.nodes.filter((one) => one.ring === ring).length);
  if (!count[0] || !clientWidth || !clientHeight) return;
  const [wide, high] = ["x", "y"].map((axis) => lengthAlong(shape.nodes, axis));
  const letters = Math.max(...shape.nodes.map((one) => Math.min(LETTERS, store.ids[one.place]?.length ?? 0)));
  const [left, above] = [clientWidth - 2 * PADDING - 6 * letters * READABLE, clientHeight - 2 * PADDING - 40 * READABLE];
  const room = [left / (wide || 1), above / (high || 1)];
  if (Math.min(...room) >= READABLE) return;
  // rings of many nodes would overlap if they were smaller
  const least = Math.max(0.5, count[0] / 14, count[1] / 24);
  const [across, down] = room.map((one) => Math.max(Math.min(1, least), Math.min(1.4, one / READABLE)));
  for (const one of shape.nodes) [one.x, one.y] = [one.x * across, one.y * down];
}

function lengthAlong(nodes, axis) {
  const places = nodes.map((one) => one[axis]);
  return Math.max(...places) - Math.min(...places);
}

function polar(radius, angle) {
  return { x: radius * Math.cos(angle), y: radius * Math.sin(angle) };
}

function edgesBetween(store, nodes, centre) {
  const shown = new Set(nodes.filter((one) => one.more === undefined).map((one) => one.place));
  const edges = [];
  for (const target of shown) {
    for (const [source, edge] of store.incoming(target)) {
      if (!shown.has(source)) continue;
      const both = !store.about.directed || store.findEdge(source, target) >= 0;
      // of the two directions of a link the one towards the centre is drawn
      const toCentre = target === centre || (source !== centre && target < source);
      if (both && !toCentre) continue;
      edges.push({ edge, source, target, own: target === centre || source === centre, arrow: !both });
    }
  }
  return edges;
}
