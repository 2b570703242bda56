// Elements made from text nodes: nothing that a user wrote is ever read as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, options, children) {
  for (const [name, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((one) => one !== null && one !== undefined));
  return node;
}

export function el(tag, options = {}, ...children) {
  return fill(document.createElement(tag), options, children);
}

export function svg(tag, options = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), options, children);
}

const NOTHING_SEEN = /^[\p{Z}\p{Cc}\p{Cf}\u115f\u1160\u2800\u3164\uffa0]*$/u;

// A text of the user as it can be seen: one of spaces and invisible characters alone is named by these.
export function visible(text) {
  if (!NOTHING_SEEN.test(text)) return text;
  const codes = [...text].slice(0, 3).map((one) => `U+${one.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
  return codes.length ? `(${codes.join(" ")}${text.length > 3 ? " …" : ""})` : "(empty)";
}

// A text of the user: isolated, so that its direction of writing changes nothing around it.
export function said(text, options = {}) {
  return el("bdi", { ...options, text: text === null ? "–" : visible(text) });
}

// The same for a place that takes no elements: between the characters for the isolation of a text.
export function isolated(text) {
  return `\u2068${visible(text)}\u2069`;
}

export function byId(id) {
  return document.getElementById(id);
}

export function tell(text) {
  byId("status").textContent = text;
}

export function complain(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = !text;
}

export function number(value, digits = 3) {
  return value === null || Number.isNaN(value) ? "–" : value.toFixed(digits);
}

// A probability: of a small one the first digits, where its decimals would be zeros.
export function share(value, digits = 3) {
  if (!value || Number.isNaN(value) || Math.abs(value) >= 10 ** -digits) return number(value, digits);
  return Math.abs(value) < 1e-4 ? value.toExponential(2) : String(Number(value.toPrecision(3)));
}

// A threshold: hundredths as such, others with so many digits that they are told apart from these.
export function thresholdText(value) {
  return Number.isInteger(Number((100 * value).toFixed(9))) && (value === 0 || value >= 0.01)
    ? value.toFixed(2)
    : share(value);
}

// Numbers of four bytes, or fewer, without the digits that they get in eight.
export function precise(value, digits = 7) {
  return value === null || Number.isNaN(value) ? value : Number(value.toPrecision(digits));
}

export function change(value, digits = 3) {
  const text = number(value, digits).replace("-", "−");
  if (text === "–") return text;
  if (!Number(text.replace("−", ""))) return `±${text.replace("−", "")}`;
  return value > 0 ? `+${text}` : text;
}

export function percent(value) {
  return Number.isNaN(value) ? "–" : `${(100 * value).toFixed(1)} %`;
}

export function counted(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

export function capital(text) {
  return text[0].toUpperCase() + text.slice(1);
}

export function shortened(text, most = 18) {
  const letters = [...visible(text)];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

// What an element is, so that it is found again after its part of the page is drawn anew.
function signOf(node) {
  const part = node.closest("#find, #see, #why, #judge");
  if (!part) return null;
  // that of the picture names its node, which may be another one now
  const label = node.matches(".canvas") ? null : node.getAttribute("aria-label");
  const own = [node.tagName, node.id, node.className, label];
  const rest = [node.dataset.value, node.matches("button") ? node.querySelector(".id, bdi")?.textContent : null];
  return { part, tag: node.tagName, text: JSON.stringify([...own, ...rest]) };
}

// Draw something anew and leave the focus where it was, or on the part of the page if what had it is gone.
export function keepingFocus(draw) {
  const node = document.activeElement;
  const sign = node && node !== document.body ? signOf(node) : null;
  draw();
  if (!sign || node.isConnected) return;
  const same = [...sign.part.querySelectorAll(sign.tag)].find((one) => signOf(one).text === sign.text && !one.disabled);
  (same ?? sign.part).focus({ preventScroll: true });
}

// A bar from 0 to 1, beside which its number is written.
export function bar(value, name, options = {}) {
  const width = Number.isNaN(value) ? 0 : Math.max(0, Math.min(1, value));
  return svg(
    "svg",
    {
      class: `bar ${options.class ?? ""}`,
      viewBox: "0 0 100 8",
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": name,
    },
    svg("rect", { class: "track", width: 100, height: 8, rx: 2 }),
    svg("rect", { class: "level", width: 100 * width, height: 8, rx: 2 }),
  );
}

// A bar to the left or the right of the middle, for changes.
export function twoSided(value, largest, name) {
  const width = largest > 0 ? (49 * Math.abs(value)) / largest : 0;
  return svg(
    "svg",
    { class: "bar change", viewBox: "0 0 100 8", preserveAspectRatio: "none", role: "img", "aria-label": name },
    svg("rect", { class: "track", width: 100, height: 8, rx: 2 }),
    svg("rect", { class: value < 0 ? "less" : "more", x: value < 0 ? 50 - width : 50, width, height: 8 }),
    svg("rect", { class: "middle", x: 49.7, width: 0.6, height: 8 }),
  );
}

function cell(value) {
  const text = value === null || value === undefined || Number.isNaN(value) ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function save(blob, name) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

export function saveTable(name, header, rows) {
  const text = [header, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
  save(new Blob(["\ufeff", text], { type: "text/csv;charset=utf-8" }), fileName(name, "csv"));
  tell(`${name} saved as a table of ${counted(rows.length, "row")}`);
}

export function loadedPicture(address) {
  return new Promise((done, fail) => {
    const picture = new Image();
    picture.onload = () => done(picture);
    picture.onerror = fail;
    picture.src = address;
  });
}

export function fileName(name, suffix) {
  return `${name.replace(/[^\p{L}\p{N}.-]+/gu, "-").slice(0, 60)}.${suffix}`;
}

export function csvButton(name, header, rows) {
  return el("button", {
    type: "button",
    class: "small",
    text: "CSV",
    title: "Download this table",
    "aria-label": `Download the table ${name} as CSV`,
    onclick: () => saveTable(name, header, rows()),
  });
}

export function plainTable(header, rows, options = {}) {
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": options.name ?? "table" },
    el(
      "table",
      { class: header.length < 5 ? "wrap" : null },
      el("thead", {}, el("tr", {}, ...header.map((one) => el("th", { scope: "col" }, said(one))))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((one) => el("td", {}, said(String(one))))))),
    ),
  );
}

export function segmented(name, options, current, choose) {
  return el(
    "div",
    { class: "segmented", role: "radiogroup", "aria-label": name },
    ...options.map(([value, text]) =>
      el("button", {
        type: "button",
        role: "radio",
        text,
        "aria-checked": String(value === current),
        tabindex: value === current ? 0 : -1,
        "data-value": value,
        onclick: () => choose(value),
        onkeydown: (event) =>
          moveChoice(
            event,
            options.map(([one]) => one),
            value,
            choose,
          ),
      }),
    ),
  );
}

function moveChoice(event, values, value, choose) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const group = event.target.parentElement;
  const label = group.getAttribute("aria-label");
  const next = values[(values.indexOf(value) + step + values.length) % values.length];
  choose(next);
  for (const one of document.querySelectorAll('[role="radiogroup"]')) {
    if (one.getAttribute("aria-label") === label) one.querySelector(`[data-value="${next}"]`)?.focus();
  }
}
