// Find: a search box, and lists of nodes that are worth looking at.
import { el, said, byId, csvButton, tell, counted, capital, keepingFocus } from "./dom.js";
import { state, update } from "./state.js";
import { classColour } from "./colours.js";

// The list that is shown unless another is chosen: the first with a node.
export function firstOf(lists) {
  return lists.find((one) => one.rows.length) ?? lists[0];
}

function foundWords(shown, count) {
  if (Number.isNaN(count)) return `the first ${counted(shown, "node")}`;
  if (shown < count) return `${shown} of ${counted(count, "node")} shown`;
  return `${counted(count, "node")} found`;
}

export class Find {
  constructor(source) {
    this.source = source;
    this.found = [];
    this.active = -1;
    this.input = el("input", {
      id: "search",
      type: "search",
      role: "combobox",
      placeholder: source.store ? "id, label or class" : "id or label",
      autocomplete: "off",
      spellcheck: "false",
      "aria-expanded": "false",
      "aria-controls": "found",
      "aria-autocomplete": "list",
      oninput: () => this.search(),
      onkeydown: (event) => this.onKey(event),
    });
    this.box = el("ul", { id: "found", role: "listbox", "aria-label": "Nodes found", hidden: true });
    this.lists = el("div", { class: "lists" });
    byId("find").append(
      el("label", { for: "search", class: "heading", text: "Find a node" }),
      el("div", { class: "search" }, this.input, this.box),
      this.lists,
    );
    this.input.addEventListener("blur", () => setTimeout(() => this.close(), 200));
  }

  async search() {
    const text = this.input.value;
    let answer = { rows: [], count: 0 };
    let problem = "";
    try {
      answer = await this.source.search(text);
    } catch (error) {
      problem = `The search failed: ${error.message}.`;
    }
    if (text !== this.input.value) return;
    const { rows, count } = answer;
    const none = `No node has this ${this.source.store ? "id, label or class" : "id or label"}.`;
    const found = foundWords(rows.length, count);
    this.found = rows;
    this.active = rows.length ? 0 : -1;
    this.box.replaceChildren(
      ...rows.map((row, place) =>
        el(
          "li",
          {
            id: `found-${place}`,
            role: "option",
            "aria-selected": String(place === 0),
            onmousedown: () => this.choose(place),
          },
          said(row.id, { class: "id" }),
          el("span", { class: "quiet" }, said(row.text ?? "")),
        ),
      ),
      ...(rows.length && rows.length === count
        ? []
        : [
            el("li", {
              class: "quiet",
              role: "option",
              "aria-disabled": "true",
              text: problem || (rows.length ? `${capital(found)}.` : none),
            }),
          ]),
    );
    this.box.hidden = !text.trim();
    this.input.setAttribute("aria-expanded", String(!this.box.hidden));
    this.mark();
    if (text.trim()) tell(problem || (rows.length ? found : "no node found"));
  }

  mark() {
    [...this.box.children].forEach((one, place) => one.setAttribute("aria-selected", String(place === this.active)));
    if (this.active >= 0) {
      this.input.setAttribute("aria-activedescendant", `found-${this.active}`);
      this.box.children[this.active].scrollIntoView({ block: "nearest" });
    } else this.input.removeAttribute("aria-activedescendant");
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.found.length) {
      event.preventDefault();
      this.active = (this.active + step + this.found.length) % this.found.length;
      this.mark();
    } else if (event.key === "Enter" && this.active >= 0) this.choose(this.active);
    else if (event.key === "Escape") this.close();
  }

  choose(place) {
    const { id } = this.found[place];
    this.input.value = "";
    this.close();
    update({ node: id, step: null, tab: "explore" });
    this.source.show("see");
  }

  close() {
    this.box.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
  }

  showLists() {
    keepingFocus(() => this.drawLists());
  }

  drawLists() {
    const lists = this.source.lists();
    if (!lists.length) return this.lists.replaceChildren();
    const current = lists.find((one) => one.key === state.list) ?? firstOf(lists);
    const choice = el(
      "select",
      { id: "list", onchange: (event) => update({ list: event.target.value }) },
      ...lists.map((one) => el("option", { value: one.key, text: one.title, selected: one === current })),
    );
    this.lists.replaceChildren(
      el(
        "div",
        { class: "row" },
        el("label", { for: "list", class: "heading", text: "Worth looking at" }),
        csvButton(current.title, ["node", "text"], () => current.rows.map((row) => [row.id, row.text])),
      ),
      choice,
      ...(current.note && current.rows.length ? [el("p", { class: "quiet", text: current.note })] : []),
      current.rows.length
        ? el(
            "ol",
            { class: "nodes", "aria-label": current.title },
            ...current.rows.map((row) => el("li", {}, this.button(row))),
          )
        : el("p", { class: "quiet", text: current.none }),
    );
    return undefined;
  }

  button(row) {
    const { classes } = this.source.about();
    const predicted = row.predicted ?? this.source.predictedOf(row.id); // a server sends it with the row
    const dot = el("span", { class: "dot", "aria-hidden": "true" });
    dot.style.background = classColour(classes, predicted);
    return el(
      "button",
      {
        type: "button",
        "aria-current": row.id === state.node ? "true" : null,
        onclick: () => {
          update({ node: row.id, step: null });
          this.source.show("see");
        },
      },
      dot,
      said(row.id, { class: "id" }),
      el("span", { class: "quiet" }, said(row.text)),
    );
  }
}
