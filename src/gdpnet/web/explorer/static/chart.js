// A chart of lines, drawn by uPlot, with a vertical line where something is marked.
import { el, plainTable } from "./dom.js";
import { lineColour, themed } from "./colours.js";

export const HEIGHT_OF_CHART = 230;

// Where the mouse is not over the chart, or a line has a gap, there is no value.
const shortNumber = (value) => (value === null || value === undefined ? "–" : String(Number(value.toPrecision(3))));

export function lineChart(box, x, lines, options, markedAt) {
  return new uPlot(
    {
      width: Math.max(200, box.clientWidth),
      height: HEIGHT_OF_CHART,
      scales: {
        x: { time: false, distr: options.logarithmic ? 3 : 1 },
        ...(options.range ? { y: { range: options.range } } : {}),
      },
      axes: axesOf(options),
      cursor: { drag: { x: false, y: false } },
      legend: { live: !options.gaps, show: lines.length > 1, markers: { dash: (plot, at) => markOf(plot.series[at]) } },
      series: [
        { label: options.x, value: (_, one) => shortNumber(one) },
        ...lines.map(([name, , faint], at) => seriesOf(name, at, faint, options)),
      ],
      hooks: { draw: [(plot) => markOn(plot, markedAt())] },
    },
    [x, ...lines.map(([, values]) => values)],
    box,
  );
}

function axesOf(options) {
  const [ink, line] = [themed("ink"), themed("line")];
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line },
    font: "11px system-ui",
    labelFont: "12px system-ui",
    labelSize: 18,
  };
  return [
    { ...axis, label: options.x, size: 34, ...(options.logarithmic ? powersOfTen(axis) : {}) },
    { ...axis, label: options.y ?? "", size: sizeOf, labelSize: options.y ? 18 : 0, values: (_, places) => numbered(places) },
  ];
}

// The numbers beside an axis: with so many digits that they differ.
function numbered(places) {
  const step = Math.abs(places[1] - places[0]) || 1;
  const large = Math.max(...places.map(Math.abs));
  if (large > 0 && (large < 1e-3 || large >= 1e6))
    return places.map((one) => (one ? one.toExponential(Math.max(0, Math.ceil(Math.log10(large / step) - 1e-9))) : "0").replace("-", "−"));
  const digits = Math.max(0, 1 - Math.floor(Math.log10(step) + 1e-9)); // steps are 1, 2, 2.5 or 5 times a power of ten
  return places.map((one) => String(Number(one.toFixed(digits))).replace("-", "−"));
}

// As wide as its longest number.
function sizeOf(plot, texts) {
  const longest = Math.max(3, ...(texts ?? []).map((one) => one.length));
  return 18 + 7 * longest;
}

// Of a logarithmic axis the powers of ten alone: the lines between them would be one grey surface.
function powersOfTen(axis) {
  const isPower = (one) => Number.isInteger(Number(Math.log10(one).toFixed(6)));
  const filter = (_, places) => places.map((one) => (isPower(one) ? one : null));
  return {
    filter,
    grid: { ...axis.grid, filter },
    ticks: { ...axis.ticks, filter },
    values: (_, places) =>
      places.map((one) => (one === null ? "" : one < 1e-3 ? one.toExponential(0) : String(Number(one.toFixed(3))))),
  };
}

function seriesOf(name, at, faint, options) {
  return {
    label: name,
    class: faint ? "faint" : undefined,
    stroke: faint ? themed("edge") : lineColour(at),
    width: faint ? 1 : 2,
    dash: faint ? [4, 4] : undefined,
    spanGaps: true,
    value: (_, one) => shortNumber(one),
    points: { show: Boolean(options.points && !faint), size: 6 },
  };
}

// The legend's mark is dashed as the line is.
function markOf(series) {
  return series.dash ? "dashed" : "solid";
}

function markOn(plot, place) {
  if (place === undefined || place === null) return;
  const x = plot.valToPos(place, "x", true);
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.strokeStyle = themed("bold");
  ctx.lineWidth = 2 * devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.beginPath();
  ctx.moveTo(x, bbox.top);
  ctx.lineTo(x, bbox.top + bbox.height);
  ctx.stroke();
  ctx.restore();
}

// The numbers of a chart, written when they are first asked for.
export function chartTable(title, header, rows) {
  const details = el("details", {}, el("summary", { text: "Table" }));
  details.addEventListener(
    "toggle",
    () => {
      const texts = rows().map((row) => row.map((one) => shortText(one)));
      details.append(plainTable(header, texts, { name: `${title}: table` }));
    },
    { once: true },
  );
  return details;
}

function shortText(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? String(Number(value.toPrecision(4))) : value;
}
