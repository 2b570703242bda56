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

// How far a keep probability is from dropped to kept: itself, but if the model's threshold is so small that most
// probabilities are, its place among the thresholds, with the model's own in the middle.
export function placeAround({ threshold, thresholds }, keep) {
  if (!(thresholds[1] < 0.01)) return keep;
  const own = thresholds.indexOf(threshold);
  const above = thresholds.findIndex((one) => one > keep);
  if (above < 0) return 1;
  const [low, high] = [thresholds[above - 1], thresholds[above]];
  const at = above - 1 + (keep - low) / (high - low);
  return at < own ? at / own / 2 : 0.5 + (at - own) / (thresholds.length - 1 - own) / 2;
}

// Orange for edges that are dropped with certainty, grey in between, blue for those that are kept.
export function keepColour(keep) {
  const parts = keep < 0.5 ? between(LOW, MIDDLE, 2 * keep) : between(MIDDLE, HIGH, 2 * keep - 1);
  return `rgb(${parts.join(",")})`;
}

export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
