// What is shown, kept in the address of the page, so that it can be bookmarked and sent.

const DEFAULTS = {
  tab: "explore",
  node: null,
  threshold: null,
  hops: "1",
  view: "decisions",
  list: null,
  step: null,
  theme: null,
  panel: "see",
  keys: "on",
};
// What an address may ask for; anything else is as if it was not there.
const KNOWN = {
  tab: ["explore", "judge"],
  hops: ["1", "2"],
  view: ["decisions", "before", "after", "both"],
  theme: ["light", "dark"],
  panel: ["find", "see", "why"],
  keys: ["on", "off"],
};
let firstNode = null; // of an address that names none
const listeners = new Set();

export const state = { ...DEFAULTS };

function readAddress() {
  const given = new URLSearchParams(location.hash.slice(1));
  for (const name of Object.keys(DEFAULTS)) {
    const value = given.get(name);
    state[name] = value === null || KNOWN[name]?.includes(value) === false ? DEFAULTS[name] : value;
  }
  state.node ??= firstNode;
}

function written() {
  const pairs = Object.entries(state).filter(([name, value]) => value !== null && value !== DEFAULTS[name]);
  return `#${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]))}`;
}

// Change what is shown; another node is a step in the browser's history, everything else is not.
export function update(changes) {
  const before = { ...state };
  Object.assign(state, changes);
  const moved = state.node !== before.node || state.tab !== before.tab;
  if (written() !== location.hash) history[moved ? "pushState" : "replaceState"](null, "", written());
  announce(before);
}

function announce(before) {
  const changed = new Set(Object.keys(state).filter((name) => state[name] !== before[name]));
  if (changed.size) for (const one of listeners) one(changed);
}

// Show a node as if the address had named it: going back to the beginning must find it there.
export function beginWith(node) {
  [firstNode, state.node] = [node, node];
  history.replaceState(null, "", written());
}

export function listen(listener) {
  listeners.add(listener);
}

export function beginState() {
  readAddress();
  const follow = () => {
    const before = { ...state };
    readAddress();
    announce(before);
  };
  addEventListener("popstate", follow);
  addEventListener("hashchange", follow);
}
