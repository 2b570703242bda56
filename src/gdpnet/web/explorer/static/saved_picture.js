// The picture as it is downloaded: what is shown, beside each other, with titles and the legend.
import { el, loadedPicture } from "./dom.js";
import { themed } from "./colours.js";

const MARGIN = 16;
const LINE = 34; // of a text, in pixels of the picture, which has two for each on the screen
const LEAST = 900; // so wide that a title of usual length fits

export async function pictureOf(networks, titles, legend) {
  const options = { output: "base64uri", full: true, scale: 2, bg: themed("paper"), maxWidth: 3000 };
  const drawn = await Promise.all(networks.map((cy) => loadedPicture(cy.png(options))));
  const widths = drawn.map((one) => Math.max(one.width, LEAST / drawn.length));
  const width = widths.reduce((sum, one) => sum + one, 0);
  const measure = prepared(el("canvas").getContext("2d"));
  const above = titles.map((title, place) => linesOf(measure, title, widths[place] - 2 * MARGIN));
  const top = LINE * Math.max(...above.map((one) => one.length)) + 2 * MARGIN;
  const marks = arranged(measure, legend, width);
  const high = Math.max(...drawn.map((one) => one.height));
  const canvas = el("canvas", { width, height: top + high + LINE * (marks.at(-1)?.line + 1 || 0) + 2 * MARGIN });
  const context = prepared(canvas.getContext("2d"));
  context.fillStyle = themed("paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  let left = 0;
  drawn.forEach((one, place) => {
    context.fillStyle = themed("ink");
    above[place].forEach((text, line) => context.fillText(text, left + MARGIN, MARGIN + LINE * (line + 0.75)));
    context.drawImage(one, left + (widths[place] - one.width) / 2, top);
    left += widths[place];
  });
  for (const one of marks) drawMark(context, one, top + high + MARGIN + LINE * one.line);
  return canvas;
}

function prepared(context) {
  context.font = "26px system-ui, sans-serif";
  return context;
}

// A text in lines, broken between words where it can be, and within them where it must be.
function linesOf(context, text, width) {
  const lines = [""];
  for (const letter of text) {
    if (context.measureText(lines.at(-1) + letter).width <= width) lines[lines.length - 1] += letter;
    else {
      const full = lines.at(-1);
      const at = full.lastIndexOf(" ") + 1;
      if (at > full.length / 2) lines.splice(-1, 1, full.slice(0, at), full.slice(at) + letter);
      else lines.push(letter);
    }
  }
  return lines;
}

// The parts of the legend with their places, line by line.
function arranged(context, legend, width) {
  let [left, line] = [MARGIN, 0];
  return legend.map((part) => {
    const [before, after] = textsAround(part);
    const wide = context.measureText(before + after).width + sizeOf(part) + 3 * MARGIN;
    if (left > MARGIN && left + wide > width) [left, line] = [MARGIN, line + 1];
    const placed = { part, before, after, left, line };
    left += wide;
    return placed;
  });
}

// The mark may stand between two texts.
function textsAround(part) {
  const mark = part.querySelector("span[aria-hidden]");
  if (!mark) return ["", part.textContent];
  const nodes = [...part.childNodes];
  const at = nodes.indexOf(mark);
  return [nodes.slice(0, at), nodes.slice(at + 1)].map((some) => some.map((one) => one.textContent).join(""));
}

function sizeOf(part) {
  if (part.querySelector(".scale")) return 120;
  if (part.querySelector(".dash")) return 44;
  return part.querySelector(".dot, .ring") ? 28 : 0;
}

function drawMark(context, { part, before, after, left, line }, top) {
  const size = sizeOf(part);
  const middle = top + LINE / 2;
  context.fillStyle = themed("ink");
  context.fillText(before, left, top + LINE * 0.75);
  const at = left + context.measureText(before).width + (before ? 8 : 0);
  const mark = part.querySelector("span[aria-hidden]");
  if (mark?.className === "scale") {
    const colours = context.createLinearGradient(at, 0, at + size - 16, 0);
    ["rgb(214, 96, 30)", "rgb(150, 156, 163)", "rgb(33, 113, 181)"].forEach((one, place) =>
      colours.addColorStop(place / 2, one),
    );
    context.fillStyle = colours;
    context.fillRect(at, middle - 6, size - 16, 12);
  } else if (mark?.className === "dash") {
    context.strokeStyle = "rgb(190, 110, 60)";
    context.lineWidth = 4;
    context.setLineDash([8, 6]);
    context.beginPath();
    context.moveTo(at, middle);
    context.lineTo(at + size - 12, middle);
    context.stroke();
    context.setLineDash([]);
  } else if (mark) {
    context.fillStyle = mark.className === "ring" ? themed("edge") : mark.style.background;
    context.strokeStyle = themed("noise");
    context.lineWidth = 5;
    context.beginPath();
    context.arc(at + 10, middle, mark.className === "ring" ? 8 : 10, 0, 2 * Math.PI);
    context.fill();
    if (mark.className === "ring") context.stroke();
  }
  context.fillStyle = themed("ink");
  context.fillText(after, at + size, top + LINE * 0.75);
}
