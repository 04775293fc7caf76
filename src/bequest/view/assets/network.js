// The network: nodes, who talks to whom, farewells on their way, and memories around their heirs.
import { prepared } from "./palette.js";
import { fate, holderOf, memories } from "./story.js";
import { told } from "./words.js";

const MOONS = 9; // more memories than this are drawn as a ring with a number
const LONGEST = 14; // letters of a silo's name below its node; pointing at it shows all
const TRACE = 0.04; // what happened stays visible for this part of the rounds

export class NetworkView {
  constructor(canvas, story, palette, index) {
    this.canvas = canvas;
    this.story = story;
    this.palette = palette;
    this.index = index;
    this.absent = new Set(story.run.network.absent);
    this.hovered = null;
    this.focused = null;
    this.onpick = () => {};
    this.onhover = () => {};
    canvas.addEventListener("pointermove", (event) => this.hover(this.hit(event)));
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("click", (event) => this.onpick(this.hit(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => {
      this.focused = null;
      this.onhover();
    });
  }

  hover(node) {
    if (node === this.hovered) return;
    this.hovered = node;
    this.canvas.style.cursor = node === null ? "default" : "pointer";
    this.onhover();
  }

  // Up and down choose a node, Enter tells its story.
  key(event) {
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    if (event.key in steps) {
      const from = this.focused === null ? (event.key === "ArrowDown" ? -1 : 0) : this.focused;
      this.focused = (from + steps[event.key] + this.story.n) % this.story.n;
      this.onhover();
    } else if (event.key === "Enter" && this.focused !== null) this.onpick(this.focused);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  hit(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    let best = null;
    let nearest = (this.radius + 8) ** 2;
    this.places.forEach(([px, py], node) => {
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < nearest) [best, nearest] = [node, distance];
    });
    return best;
  }

  arrange(width, height) {
    if (this.arranged === `${width}x${height}`) return;
    this.arranged = `${width}x${height}`;
    const { n } = this.story;
    const { positions } = this.story.run;
    if (!positions) {
      const columns = Math.ceil(Math.sqrt((n * width) / Math.max(height, 1)));
      const rows = Math.ceil(n / columns);
      const [dx, dy] = [width / (columns + 1), height / (rows + 1)];
      this.places = Array.from({ length: n }, (_, k) => [
        dx * (1 + (k % columns)),
        dy * (1 + Math.floor(k / columns)),
      ]);
      this.radius = Math.max(1.5, Math.min(dx, dy) * 0.28);
      return;
    }
    this.radius = n <= 30 ? 15 : n <= 80 ? 10 : 6;
    const edge = this.radius + 26;
    // A ring stays nearly round, whatever the shape of the window.
    const across = Math.min(width - 2 * edge, (height - 2 * edge) * 1.3);
    const down = Math.min(height - 2 * edge, (width - 2 * edge) * 1.3);
    this.places = positions.map(([x, y]) => [
      width / 2 + (x - 0.5) * across,
      height / 2 + (y - 0.5) * down,
    ]);
  }

  draw(clock, selected) {
    const { context, width, height } = prepared(this.canvas);
    if (width < 2) return;
    this.arrange(width, height);
    const round = Math.floor(clock.round);
    const count = this.story.count(round);
    const state = this.story.after(count);
    const moving = clock.hold ? this.happening(clock.hold, count) : [];
    const progress = clock.hold ? clock.hold.progress : 1;
    this.drawEdges(context, state, moving, progress, selected);
    if (!clock.hold) this.drawTraces(context, clock, count);
    this.drawNodes(context, state, moving, progress, selected);
    this.drawMemories(context, state, moving, progress);
    for (const event of moving) this.drawMoving(context, event, progress);
    this.label(context, state, selected, width, height);
  }

  happening(hold, count) {
    const events = [];
    for (let k = count - 1; k >= 0 && this.story.events[k].round === hold.round; k -= 1) {
      events.push(this.story.events[k]);
    }
    return events;
  }

  drawEdges(context, state, moving, progress, selected) {
    const { palette } = this;
    const fresh = new Set(moving.flatMap(({ record }) => (record.bridges || []).map((pair) => String(pair))));
    context.lineCap = "round";
    const plain = new Path2D();
    const near = new Path2D();
    for (const { one, other, healed } of state.edges.values()) {
      const [a, b] = [this.places[one], this.places[other]];
      if (healed) {
        const grown = fresh.has(`${one},${other}`) || fresh.has(`${other},${one}`) ? eased(progress) : 1;
        context.setLineDash([5, 4]);
        context.strokeStyle = palette.heal;
        context.lineWidth = 2;
        line(context, a, [a[0] + (b[0] - a[0]) * grown, a[1] + (b[1] - a[1]) * grown]);
        context.setLineDash([]);
        continue;
      }
      const path = selected === one || selected === other ? near : plain;
      path.moveTo(a[0], a[1]);
      path.lineTo(b[0], b[1]);
    }
    context.strokeStyle = palette.line;
    context.lineWidth = this.story.n > 80 ? 0.8 : 1.4;
    context.stroke(plain);
    context.strokeStyle = palette.run(this.index);
    context.lineWidth = 1.8;
    context.stroke(near);
  }

  // Lately left: an arrow from the leaver to its heir, which fades.
  drawTraces(context, clock, count) {
    const span = Math.max(clock.end * TRACE, 1);
    for (let k = count - 1; k >= 0; k -= 1) {
      const event = this.story.events[k];
      const age = (clock.round - event.round) / span;
      if (age > 1 || age < 0) break;
      const target = travels(event);
      if (!target) continue;
      context.globalAlpha = 1 - age;
      context.strokeStyle = this.colour(event.node);
      context.fillStyle = context.strokeStyle;
      context.lineWidth = 2.5;
      arrow(context, this.places[target[0]], this.places[target[1]], this.radius + 4);
      context.globalAlpha = 1;
    }
  }

  drawNodes(context, state, moving, progress, selected) {
    const { palette, radius } = this;
    const changing = new Map(moving.map((event) => [event.node, event.kind]));
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.font = `600 ${radius >= 13 ? 12 : 9}px ${FONT}`;
    for (let node = 0; node < this.story.n; node += 1) {
      const [x, y] = this.places[node];
      const is = fate(state, node, this.absent);
      const kind = changing.get(node);
      let scale = 1;
      if (kind === "join" || kind === "return") scale = 0.4 + 0.6 * eased(progress);
      if (is === "there") {
        disc(context, x, y, radius * scale);
        context.fillStyle = palette.run(this.index);
        context.fill();
      } else if (is !== "not there yet" || kind) {
        const leaving = kind === "departure" || kind === "crash" || kind === "failure";
        this.drawGone(context, node, is, leaving ? progress : 1);
      } else {
        context.setLineDash([2, 3]);
        context.strokeStyle = palette.line;
        context.lineWidth = 1.2;
        disc(context, x, y, radius * 0.8);
        context.stroke();
        context.setLineDash([]);
      }
      if (node === selected || node === this.focused || node === this.hovered) {
        context.strokeStyle = palette.ink;
        context.lineWidth = node === selected ? 2.5 : 1.5;
        disc(context, x, y, radius + 3.5);
        context.stroke();
      }
      if (radius >= 10) {
        context.fillStyle = is === "there" ? palette.paper : palette.muted;
        context.fillText(String(node), x, y + 0.5);
      }
      if (this.story.names && radius >= 10) this.drawName(context, node, is);
    }
  }

  // What a silo is called, below its node, on a ground that keeps it apart from edges.
  drawName(context, node, is) {
    const { palette, radius } = this;
    const [x, y] = this.places[node];
    const name = this.story.called(node);
    const text = name.length > LONGEST ? `${name.slice(0, LONGEST - 1)}\u2026` : name;
    const font = context.font;
    context.font = `500 11px ${FONT}`;
    const long = context.measureText(text).width + 6;
    context.fillStyle = palette.paper;
    context.globalAlpha = 0.85;
    context.beginPath();
    context.roundRect(x - long / 2, y + radius + 9, long, 14, 4);
    context.fill();
    context.globalAlpha = 1;
    context.fillStyle = is === "there" ? palette.ink : palette.muted;
    context.fillText(text, x, y + radius + 16.5);
    context.font = font;
  }

  // A node that is gone: an outline in its own colour if it is remembered, crossed out if not.
  drawGone(context, node, is, progress) {
    const { palette, radius } = this;
    const [x, y] = this.places[node];
    if (progress < 1) {
      context.globalAlpha = 1 - eased(progress);
      disc(context, x, y, radius);
      context.fillStyle = palette.run(this.index);
      context.fill();
      context.globalAlpha = 1;
    }
    const isRemembered = is === "remembered";
    disc(context, x, y, radius * 0.9);
    context.fillStyle = palette.paper;
    context.globalAlpha = 0.75 * Math.min(progress * 2, 1);
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = isRemembered ? 2 : 1.4;
    context.strokeStyle = isRemembered ? this.colour(node) : is === "lost" ? palette.danger : palette.muted;
    context.setLineDash(isRemembered ? [] : [3, 3]);
    context.stroke();
    context.setLineDash([]);
    if (is === "lost") {
      const arm = radius * 1.15;
      context.lineWidth = 1.6;
      line(context, [x - arm, y + arm], [x + arm, y - arm]);
    }
  }

  // Memories are moons around the node that holds them, in the colours of those they are of.
  drawMemories(context, state, moving, progress) {
    const { palette, radius } = this;
    const arriving = new Set(moving.filter((event) => travels(event)).map(({ node }) => node));
    for (const [holder, nodes] of memories(state)) {
      const [x, y] = this.places[holder];
      const orbit = radius + (radius >= 10 ? 7 : 4);
      const size = radius >= 10 ? 4.6 : 2.6;
      if (nodes.length > MOONS || this.story.isOverview) {
        context.strokeStyle = palette.glow;
        context.lineWidth = this.story.isOverview ? 1.6 : 3;
        disc(context, x, y, radius + 3);
        context.stroke();
        if (!this.story.isOverview) {
          context.font = `700 10px ${FONT}`;
          context.fillStyle = palette.ink;
          context.textAlign = "center";
          context.fillText(`+${nodes.length}`, x, y - radius - 9);
        }
        continue;
      }
      context.strokeStyle = palette.line;
      context.lineWidth = 1;
      disc(context, x, y, orbit);
      context.stroke();
      nodes.forEach((node, place) => {
        const angle = -Math.PI / 2 + (place * 2 * Math.PI) / Math.max(nodes.length, 5);
        const grown = arriving.has(node) ? Math.max((progress - 0.8) / 0.2, 0) : 1;
        if (grown <= 0) return;
        disc(context, x + orbit * Math.cos(angle), y + orbit * Math.sin(angle), size * grown);
        context.fillStyle = this.colour(node);
        context.fill();
        context.strokeStyle = palette.paper;
        context.lineWidth = 1.5;
        context.stroke();
      });
    }
  }

  drawMoving(context, event, progress) {
    const { palette, radius } = this;
    const [x, y] = this.places[event.node];
    if (event.kind === "crash" || event.kind === "failure" || event.kind === "join") {
      context.globalAlpha = Math.max(1 - progress, 0);
      context.strokeStyle = event.kind === "join" ? palette.heal : palette.danger;
      context.lineWidth = 3;
      disc(context, x, y, radius + 26 * eased(progress));
      context.stroke();
      context.globalAlpha = 1;
    }
    if (event.kind === "forget") {
      const holder = event.record.holder;
      const [hx, hy] = this.places[holder === null ? event.node : holder];
      context.globalAlpha = Math.max(1 - progress, 0);
      context.fillStyle = this.colour(event.node);
      for (let k = 0; k < 7; k += 1) {
        const angle = (k * 2 * Math.PI) / 7;
        const out = radius + 34 * eased(progress);
        disc(context, hx + out * Math.cos(angle), hy + out * Math.sin(angle), 2.5);
        context.fill();
      }
      context.globalAlpha = 1;
      return;
    }
    const target = travels(event);
    if (!target) return;
    const along = eased(Math.min(Math.max((progress - 0.1) / 0.75, 0), 1));
    const [from, to] = [this.places[target[0]], this.places[target[1]]];
    context.strokeStyle = this.colour(event.node);
    context.globalAlpha = 0.35;
    context.lineWidth = 3;
    line(context, from, to);
    context.globalAlpha = 1;
    if (along < 1) letter(context, between(from, to, along), this.colour(event.node), palette.paper);
  }

  label(context, state, selected, width, height) {
    const node = this.hovered ?? this.focused;
    if (node === null) return;
    const holder = holderOf(state, node);
    const held = memories(state).get(node);
    const is = fate(state, node, this.absent);
    const { called } = this.story;
    let text = `${this.story.names ? `${called(node)} (node ${node})` : called(node)}: ${is}`;
    if (is === "remembered" && holder !== undefined) text += ` by ${called(holder)}`;
    if (held) text += `, remembers ${held.length > 6 ? held.length : this.story.listed(held)}`;
    context.font = `500 12px ${FONT}`;
    const long = context.measureText(text).width + 16;
    const [x, y] = this.places[node];
    const left = Math.min(Math.max(x - long / 2, 4), width - long - 4);
    const top = y + this.radius + 12 > height - 28 ? y - this.radius - 36 : y + this.radius + 12;
    context.fillStyle = this.palette.ink;
    context.beginPath();
    context.roundRect(left, top, long, 24, 6);
    context.fill();
    context.fillStyle = this.palette.paper;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillText(text, left + 8, top + 12.5);
  }

  colour(node) {
    return this.palette.leaver(this.story.order.get(node) ?? 0);
  }

  // What is to be seen, for readers of the screen.
  words(clock) {
    const state = this.story.at(Math.floor(clock.round));
    const held = [...memories(state)].map(([holder, nodes]) => `${this.story.called(holder)} remembers ${this.story.listed(nodes)}`);
    const count = this.story.count(Math.floor(clock.round));
    const last = count ? ` Latest: ${told(this.story.events[count - 1])}` : "";
    return (
      `Network after round ${Math.floor(clock.round)}: ${state.present.size} of ${this.story.n} nodes are there` +
      `${held.length ? `; ${held.slice(0, 12).join("; ")}` : ""}.${last}`
    );
  }
}

const FONT = 'system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';

// From where to where a memory goes when this happens; null if none does.
function travels({ kind, node, record }) {
  if (kind === "return") return record.holder === null ? null : [record.holder, node];
  if (kind === "join" || kind === "forget") return null;
  return record.heir === null || record.heir === undefined ? null : [node, record.heir];
}

function eased(progress) {
  return progress < 0.5 ? 2 * progress * progress : 1 - (2 - 2 * progress) ** 2 / 2;
}

function between(from, to, part) {
  return [from[0] + (to[0] - from[0]) * part, from[1] + (to[1] - from[1]) * part];
}

function disc(context, x, y, radius) {
  context.beginPath();
  context.arc(x, y, Math.max(radius, 0), 0, 2 * Math.PI);
}

function line(context, from, to) {
  context.beginPath();
  context.moveTo(from[0], from[1]);
  context.lineTo(to[0], to[1]);
  context.stroke();
}

function arrow(context, from, to, gap) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
  if (length < 2 * gap) return;
  const start = between(from, to, gap / length);
  const tip = between(from, to, 1 - (gap + 5) / length);
  const angle = Math.atan2(to[1] - from[1], to[0] - from[0]);
  line(context, start, between(from, to, 1 - (gap + 11) / length));
  context.beginPath();
  context.moveTo(tip[0], tip[1]);
  for (const turn of [-0.45, 0.45]) {
    context.lineTo(tip[0] - 11 * Math.cos(angle + turn), tip[1] - 11 * Math.sin(angle + turn));
  }
  context.fill();
}

// A farewell: a small envelope.
function letter(context, [x, y], colour, paper) {
  context.shadowColor = colour;
  context.shadowBlur = 14;
  context.fillStyle = colour;
  context.beginPath();
  context.roundRect(x - 10, y - 7, 20, 14, 3);
  context.fill();
  context.shadowBlur = 0;
  context.strokeStyle = paper;
  context.lineWidth = 1.6;
  context.beginPath();
  context.moveTo(x - 7, y - 4);
  context.lineTo(x, y + 1.5);
  context.lineTo(x + 7, y - 4);
  context.stroke();
}
