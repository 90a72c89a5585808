// Draws a live curve over the band of past successful runs, onto a canvas of whatever size the page gives it.

const MARGIN = { left: 30, right: 8, top: 6, bottom: 16 };
const LEAST_SECONDS = 10;
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600];

let colours = null;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => (colours = null));

function palette() {
  if (!colours) {
    const style = getComputedStyle(document.documentElement);
    colours = Object.fromEntries(
      ["ink", "soft", "rule", "live", "band", "ground"].map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
    );
    colours.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  }
  return colours;
}

/** points: [[seconds, progress], ...] in order; band: {times, low, middle, high} or null; best: MP or null. */
export function draw(canvas, points, band, best) {
  const ratio = devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const colour = palette();
  const last = points.length ? points[points.length - 1][0] : 0;
  const end = Math.max(LEAST_SECONDS, last * 1.02, band ? band.times[band.times.length - 1] : 0);
  const x = (time) => MARGIN.left + (time / end) * (width - MARGIN.left - MARGIN.right);
  const y = (value) => MARGIN.top + (1 - value) * (height - MARGIN.top - MARGIN.bottom);

  grid(pen, colour, x, y, width, height, end);
  if (band) fillBand(pen, colour, band, x, y);
  if (best !== null && best !== undefined && points.length) {
    pen.strokeStyle = colour.soft;
    pen.lineWidth = 1;
    pen.setLineDash([2, 3]);
    line(pen, [[0, best], [last, best]], x, y);
    pen.setLineDash([]);
  }
  if (!points.length) return;
  pen.strokeStyle = colour.live;
  pen.lineWidth = 2.5;
  pen.lineJoin = "round";
  line(pen, thinned(points, width), x, y);
  pen.fillStyle = colour.live;
  pen.beginPath();
  pen.arc(x(last), y(points[points.length - 1][1]), 4, 0, 2 * Math.PI);
  pen.fill();
}

function grid(pen, colour, x, y, width, height, end) {
  pen.font = colour.font;
  pen.fillStyle = colour.soft;
  pen.strokeStyle = colour.rule;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  pen.beginPath();
  for (const value of [0, 0.25, 0.5, 0.75, 1]) {
    pen.moveTo(x(0), y(value));
    pen.lineTo(width - MARGIN.right, y(value));
    if (value !== 0.25 && value !== 0.75) pen.fillText(`${value * 100}`, MARGIN.left - 5, y(value));
  }
  pen.stroke();
  pen.textBaseline = "alphabetic";
  pen.textAlign = "center";
  const step = STEPS.find((one) => end / one <= 6) ?? end / 4;
  for (let time = step; time < end * 0.98; time += step) pen.fillText(`${time} s`, x(time), height - 3);
}

function fillBand(pen, colour, band, x, y) {
  pen.fillStyle = colour.band;
  pen.beginPath();
  band.times.forEach((time, index) => pen.lineTo(x(time), y(band.high[index])));
  for (let index = band.times.length - 1; index >= 0; index--) pen.lineTo(x(band.times[index]), y(band.low[index]));
  pen.closePath();
  pen.globalAlpha = 0.22;
  pen.fill();
  pen.globalAlpha = 0.9;
  pen.strokeStyle = colour.band;
  pen.lineWidth = 1;
  pen.setLineDash([5, 4]);
  line(pen, band.times.map((time, index) => [time, band.middle[index]]), x, y);
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}

function line(pen, points, x, y) {
  pen.beginPath();
  for (const [time, value] of points) pen.lineTo(x(time), y(value));
  pen.stroke();
}

/** At most two points per pixel column, the newest always among them. */
function thinned(points, width) {
  const step = Math.max(1, Math.floor(points.length / (2 * width)));
  return step === 1 ? points : points.filter((_, index) => index % step === 0 || index === points.length - 1);
}
