// A line of the newest values, scaled to their largest.

const WIDTH = 240;
const HEIGHT = 64;

function path(values, most, slots) {
  const step = WIDTH / (slots - 1);
  const left = WIDTH - (values.length - 1) * step;
  return values.map((value, i) => {
    const y = HEIGHT - 2 - (value / most) * (HEIGHT - 8);
    return `${i === 0 ? "M" : "L"}${(left + i * step).toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
}

function draw(svg, name, d) {
  let node = svg.querySelector(`.${name}`);
  if (!node) {
    node = document.createElementNS("http://www.w3.org/2000/svg", "path");
    node.setAttribute("class", name);
    svg.append(node);
  }
  node.setAttribute("d", d);
}

// `slots`: how many values fill the width.
export function plot(svg, values, slots) {
  if (values.length < 2) return;
  const most = Math.max(...values, 1);
  const line = path(values, most, slots);
  const left = WIDTH - (values.length - 1) * WIDTH / (slots - 1);
  draw(svg, "area", `${line}L${WIDTH} ${HEIGHT}L${left.toFixed(1)} ${HEIGHT}Z`);
  draw(svg, "line", line);
}
