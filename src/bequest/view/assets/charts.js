// The curves of the runs that are shown, one below the other, with one cursor for all.
import { prepared } from "./palette.js";
import { upTo } from "./story.js";
import { element, number, whole } from "./words.js";

const CURVES = [
  { name: "error", title: "Error", about: "distance of the worst node to the optimum of all the data" },
  { name: "gradient_norm", title: "Gradient norm", about: "of the sum of all gradients, zero at the limit" },
  { name: "disagreement", title: "Disagreement", about: "distance of the worst node to the mean of all" },
  { name: "survivors", title: "Nodes", about: "how many are there", isCount: true },
];
const LEFT = 46;
const RIGHT = 12;
const TOP = 8;
const BOTTOM = 18;
const LEAST = 1e-17;
const FONT_SMALL = '10px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

export class Charts {
  constructor(place, stories, clock, palette) {
    this.stories = stories;
    this.clock = clock;
    this.palette = palette;
    this.parts = CURVES.map((curve) => this.build(place, curve));
    this.renew();
  }

  build(place, curve) {
    const canvas = element("canvas", { class: "chart", role: "img" });
    const readout = element("span", { class: "readout" });
    const head = element("figcaption", {}, element("strong", { title: curve.about }, curve.title), readout);
    place.append(element("figure", { class: "curve" }, head, canvas));
    const scrub = (event) => {
      const box = canvas.getBoundingClientRect();
      const part = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
      this.clock.seek(Math.round(part * this.clock.end));
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      scrub(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons) scrub(event);
    });
    return { ...curve, canvas, readout, still: document.createElement("canvas") };
  }

  // Called again when there is more to see, or it is to be seen differently.
  renew() {
    for (const part of this.parts) {
      part.values = this.stories.map((story) =>
        part.isCount ? story.survivors() : story.run.curves[part.name] || [],
      );
      part.drawn = "";
      const ends = this.stories.map((story, index) => {
        const values = part.values[index];
        return `${story.run.title}: ${number(values[values.length - 1])} at round ${story.last}`;
      });
      part.canvas.setAttribute("aria-label", `${part.title} (${part.about}). ${ends.join("; ")}.`);
    }
  }

  draw() {
    for (const part of this.parts) {
      const { canvas, still } = part;
      const { context, width, height } = prepared(canvas);
      if (width < 2) continue;
      const is = `${canvas.width}x${canvas.height}`;
      if (part.drawn !== is) {
        still.width = canvas.width;
        still.height = canvas.height;
        this.drawStill(part, still.getContext("2d"), width, height, canvas.width / width);
        part.drawn = is;
      }
      context.drawImage(still, 0, 0, width, height);
      this.drawCursor(part, context, width, height);
    }
  }

  across(round, width) {
    return LEFT + (round / this.clock.end) * (width - LEFT - RIGHT);
  }

  drawStill(part, context, width, height, ratio) {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const { palette } = this;
    part.scale = part.isCount ? counts(this.stories) : decades(part.values);
    const down = (value) => {
      const { low, high } = part.scale;
      const at = part.isCount ? value : Math.log10(Math.max(value, LEAST));
      return TOP + ((high - Math.min(Math.max(at, low), high)) / (high - low)) * (height - TOP - BOTTOM);
    };
    part.down = down;
    context.font = FONT_SMALL;
    context.lineWidth = 1;
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const [value, label] of part.scale.ticks) {
      const y = Math.round(down(value)) + 0.5;
      context.strokeStyle = palette.line;
      context.globalAlpha = 0.55;
      stroke(context, [LEFT, y], [width - RIGHT, y]);
      context.globalAlpha = 1;
      context.fillStyle = palette.muted;
      context.fillText(label, LEFT - 6, y);
    }
    context.textBaseline = "alphabetic";
    context.textAlign = "center";
    for (const round of steps(this.clock.end, width > 340 ? 5 : 3)) {
      context.fillText(whole(round), Math.min(this.across(round, width), width - 16), height - 5);
    }
    this.drawMarks(context, width, height);
    this.stories.forEach((story, index) => {
      context.strokeStyle = palette.run(index);
      context.lineWidth = 1.9;
      context.lineJoin = "round";
      // Where two curves lie on each other, the dashes let both be seen.
      context.setLineDash(index ? [6, 4] : []);
      context.beginPath();
      let isDown = false;
      story.run.curves.rounds.forEach((round, k) => {
        const value = part.values[index][k];
        if (value === null || value === undefined || (value <= LEAST && !part.isCount)) {
          isDown = false;
          return;
        }
        const [x, y] = [this.across(round, width), down(value)];
        if (isDown && part.isCount) context.lineTo(x, down(part.values[index][k - 1]));
        if (isDown) context.lineTo(x, y);
        else context.moveTo(x, y);
        isDown = true;
      });
      context.stroke();
      context.setLineDash([]);
    });
    if (this.stories.every((_, index) => !part.values[index].some((value) => value !== null))) {
      context.fillStyle = palette.muted;
      context.fillText("not known", (LEFT + width - RIGHT) / 2, height / 2);
    }
  }

  // Where nodes came and went.
  drawMarks(context, width, height) {
    context.lineWidth = 1;
    context.setLineDash([2, 3]);
    context.globalAlpha = 0.7;
    this.stories.forEach((story) => {
      const shown = story.events.length > 60 ? [] : story.events;
      for (const event of shown) {
        const isCrash = event.kind === "crash" || event.kind === "failure";
        context.strokeStyle = isCrash ? this.palette.danger : this.palette.muted;
        const x = Math.round(this.across(event.round, width)) + 0.5;
        stroke(context, [x, TOP], [x, height - BOTTOM]);
      }
    });
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  drawCursor(part, context, width, height) {
    const round = Math.floor(this.clock.round);
    const x = this.across(this.clock.round, width);
    context.strokeStyle = this.palette.ink;
    context.lineWidth = 1.2;
    stroke(context, [x, TOP], [x, height - BOTTOM]);
    const said = this.stories.map((story, index) => {
      const at = upTo(story.run.curves.rounds, round);
      const value = at < 0 ? null : part.values[index][at];
      if (value === null || value === undefined) return "-";
      context.beginPath();
      context.arc(x, part.down(value), 4, 0, 2 * Math.PI);
      context.fillStyle = this.palette.run(index);
      context.fill();
      context.strokeStyle = this.palette.paper;
      context.stroke();
      return part.isCount ? String(value) : number(value);
    });
    const text = said.join("  /  ");
    if (part.readout.textContent !== text) part.readout.textContent = text;
  }
}

function stroke(context, from, to) {
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}

// A logarithmic scale around all values: powers of ten, not more of them than can be read.
function decades(series) {
  let [low, high] = [Infinity, -Infinity];
  for (const values of series) {
    for (const value of values) {
      if (value === null || value === undefined || value <= LEAST) continue;
      const exponent = Math.log10(value);
      low = Math.min(low, exponent);
      high = Math.max(high, exponent);
    }
  }
  if (low > high) [low, high] = [-1, 0];
  [low, high] = [Math.floor(low), Math.ceil(high)];
  if (low === high) high += 1;
  const every = Math.ceil((high - low) / 4);
  const ticks = [];
  for (let exponent = high; exponent >= low; exponent -= every) ticks.push([10 ** exponent, `1e${exponent}`]);
  return { low, high, ticks };
}

function counts(stories) {
  const high = Math.max(...stories.map((story) => story.n));
  const ticks = [...new Set([0, Math.round(high / 2), high])].map((count) => [count, String(count)]);
  return { low: 0, high: high * 1.05, ticks };
}

function steps(end, most) {
  const raw = end / most;
  const size = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  const every = [1, 2, 5, 10].map((factor) => factor * size).find((step) => step >= raw) || raw;
  return Array.from({ length: Math.floor(end / every) + 1 }, (_, k) => k * every);
}
