// How nodes and edges are drawn: colours of the page, sizes and classes of the elements.
import { themed } from "./colours.js";

export function networkStyle(scale) {
  const [ink, paper, line] = ["ink", "paper", "line"].map(themed);
  const label = { label: "data(label)", color: ink, "font-size": 11 * scale, "font-family": "system-ui, sans-serif" };
  return [
    {
      selector: "node",
      style: {
        ...label,
        width: "data(size)",
        height: "data(size)",
        "background-color": "data(fill)",
        "border-width": "data(border)",
        "border-color": "data(edge)",
        "text-valign": "bottom",
        "text-margin-y": 3,
        "text-background-color": paper,
        "text-background-opacity": 0.75,
        "text-background-padding": 1,
        "min-zoomed-font-size": 6,
      },
    },
    {
      selector: ".ring0",
      style: {
        "font-size": 14 * scale,
        "font-weight": "bold",
        "text-margin-y": 8, // below the outline
        "outline-width": 3,
        "outline-color": ink,
        "outline-offset": 2,
        "z-index": 9,
      },
    },
    { selector: ".corrupted", style: { shape: "diamond" } },
    {
      selector: ".more",
      style: {
        "background-color": paper,
        "background-opacity": 0,
        "border-width": 0,
        width: 44,
        height: 18,
        "text-valign": "center",
        "text-margin-y": 0,
        "text-background-opacity": 0,
        "font-size": 14 * scale,
        "font-weight": "bold",
        "min-zoomed-font-size": 0,
        color: themed("bold"),
        "overlay-opacity": 0,
      },
    },
    {
      selector: "edge",
      style: {
        width: "data(width)",
        "line-color": "data(colour)",
        "curve-style": "straight",
        opacity: 0.95,
        label: "data(label)",
        color: themed("noise"),
        "font-size": 13,
        "font-weight": "bold",
        "text-background-color": paper,
        "text-background-opacity": 0.9,
        "text-background-padding": 1,
        "text-background-shape": "roundrectangle",
      },
    },
    { selector: "edge.other", style: { opacity: 0.55, "z-index": 0, "font-size": 10 } },
    {
      selector: "edge.arrow",
      style: { "target-arrow-shape": "triangle", "target-arrow-color": "data(colour)", "arrow-scale": 0.9 },
    },
    {
      selector: "edge.plain",
      style: { "line-color": themed("edge"), width: 2, "target-arrow-color": themed("edge") },
    },
    {
      selector: "edge.dropped",
      style: { "line-style": "dashed", "line-dash-pattern": [5, 5], width: 1.8, opacity: 0.85 },
    },
    { selector: "edge.other.dropped", style: { width: 1, opacity: 0.5 } },
    { selector: ".gone", style: { display: "none" } },
    { selector: "node.alone", style: { opacity: 0.35 } },
    {
      selector: ".chosen",
      style: { "overlay-color": themed("bold"), "overlay-opacity": 0.25, "overlay-padding": 5, "z-index": 8 },
    },
    { selector: "node.chosen", style: { "overlay-shape": "ellipse" } },
    { selector: "core", style: { "active-bg-opacity": 0.1, "selection-box-color": line } },
  ];
}
