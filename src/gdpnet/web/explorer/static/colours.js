// Colours that work on both backgrounds and for readers who see few colours.

const CLASSES = [
  "#4477aa",
  "#ee6677",
  "#228833",
  "#ccbb44",
  "#66ccee",
  "#aa3377",
  "#ee8866",
  "#44bb99",
  "#9988dd",
  "#a08060",
];
const LOW = [214, 96, 30];
const MIDDLE = [150, 156, 163];
const HIGH = [33, 113, 181];

export const OTHER = "#8b929a";

export function classColour(classes, name) {
  const place = classes.indexOf(name);
  return place < 0 ? OTHER : CLASSES[place % CLASSES.length];
}

export function lineColour(place) {
  return CLASSES[place % CLASSES.length];
}

function between(one, other, share) {
  return one.map((value, channel) => Math.round(value + share * (other[channel] - value)));
}

// Orange for edges that are dropped with certainty, grey in between, blue for those that are kept.
export function keepColour(keep) {
  const parts = keep < 0.5 ? between(LOW, MIDDLE, 2 * keep) : between(MIDDLE, HIGH, 2 * keep - 1);
  return `rgb(${parts.join(",")})`;
}

export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
