// What the views ask: the page's own data, or a server.
import { Store } from "./data.js";
import { state } from "./state.js";
import { firstOf } from "./find.js";

const FEW = 20;
const MOST_FOUND = 50; // as many as a server sends

export class Source {
  constructor(payload, api) {
    this.payload = payload;
    this.api = api;
    this.store = payload.nodes ? new Store(payload) : null;
    this.known = new Map();
  }

  about() {
    return this.payload.about;
  }

  threshold() {
    const asked = state.threshold === null ? NaN : Number(state.threshold);
    return Number.isNaN(asked) ? this.about().threshold : Math.max(0, Math.min(1, asked));
  }

  lists() {
    const lists = this.payload.lists ?? [];
    if (!this.store) return lists;
    const removed = this.store.mostRemoved(this.threshold());
    const others = lists.filter((one) => one.key !== "removed");
    const none = "No edge is below this threshold.";
    const note = this.about().whole ? "" : "Of the nodes all of whose edges are on this page.";
    return [{ key: "removed", title: "Most removed edges", rows: removed, none, note }, ...others];
  }

  predictedOf(id) {
    const place = this.store?.place.get(id);
    return place === undefined ? null : this.store.name("predicted", place);
  }

  // The first nodes that match, and how many do: NaN if the server may know more than it sent.
  async search(text) {
    if (this.store) {
      const places = this.store.search(text);
      const row = (place) => ({ id: this.store.ids[place], text: this.store.name("predicted", place) ?? "" });
      return { rows: places.slice(0, MOST_FOUND).map(row), count: places.length };
    }
    const rows = text.trim() ? await asked(`${this.api}search?q=${encodeURIComponent(text.trim())}`) : [];
    return { rows, count: rows.length < MOST_FOUND ? rows.length : NaN };
  }

  // The data around a node: the page's own, or a part that the server sends.
  async around(id) {
    if (this.store) return this.store;
    if (!this.known.has(id)) {
      if (this.known.size > 30) this.known.clear();
      this.known.set(id, new Store(await asked(`${this.api}neighbourhood?node=${encodeURIComponent(id)}`)));
    }
    return this.known.get(id);
  }

  // What the model is judged by: the page's own, or computed by the server over the whole graph when it is first asked.
  async judge() {
    if (!this.payload.judge) Object.assign(this.payload, await asked(`${this.api}judge`));
    return this.payload.judge;
  }

  // The node that the page opens with: of the first list that is not empty, the first that is explained and has few neighbours.
  first() {
    if (!this.store) return this.payload.first ?? firstOf(this.lists())?.rows[0]?.id ?? null;
    const rows = (firstOf(this.lists())?.rows ?? []).map((row) => this.store.place.get(row.id));
    const explained = rows.filter((place) => this.store.hasEpisode(place));
    const small = explained.find((place) => this.store.node("degree")[place] <= FEW);
    return this.store.ids[small ?? explained[0] ?? rows[0] ?? 0] ?? null;
  }
}

export async function asked(address) {
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(content.detail ?? `the server answered ${answer.status}`);
  return content;
}
