// The family tree of legacies: who holds whose memory, and from whom it came.
import { heirsChildren, memories } from "./story.js";
import { element, opening, shape } from "./words.js";

const WIDE = 40;
const TALL = 52;
const RADIUS = 14;
const MOST = 40;

export class Tree {
  constructor(place, story, palette, index) {
    this.place = place;
    this.story = story;
    this.palette = palette;
    this.index = index;
    this.onpick = () => {};
    this.drawn = null;
  }

  draw(clock, selected) {
    const count = this.story.count(Math.floor(clock.round));
    const is = `${count}/${selected}/${this.palette.isDark}/${this.story.events.length}`;
    if (is === this.drawn) return;
    this.drawn = is;
    const state = this.story.after(count);
    const holders = [...memories(state).keys()].sort((a, b) => a - b);
    this.place.replaceChildren();
    if (!holders.length) {
      this.place.append(element("p", { class: "quiet" }, "No node holds the memory of another one."));
      return;
    }
    for (const holder of holders.slice(0, MOST)) this.place.append(this.family(state, holder, selected));
    if (holders.length > MOST) {
      this.place.append(element("p", { class: "quiet" }, `and ${holders.length - MOST} more, in the table`));
    }
  }

  family(state, root, selected) {
    const spots = [];
    const branch = (node, depth, left) => {
      const children = heirsChildren(state, node);
      let width = 0;
      const middles = children.map((child) => {
        const laid = branch(child, depth + 1, left + width);
        width += laid.width;
        return laid.middle;
      });
      width = Math.max(width, WIDE);
      const middle = middles.length ? (middles[0] + middles[middles.length - 1]) / 2 : left + width / 2;
      spots.push({ node, depth, middle, middles });
      return { width, middle };
    };
    const { width } = branch(root, 0, 0);
    const height = (Math.max(...spots.map((spot) => spot.depth)) + 1) * TALL;
    const drawing = shape("svg", {
      width,
      height,
      viewBox: `0 0 ${width} ${height}`,
      role: "group",
      "aria-label": `What ${this.story.called(root)} remembers`,
    });
    for (const { depth, middle, middles } of spots) {
      for (const below of middles) {
        const [top, bottom] = [depth * TALL + TALL / 2, (depth + 1) * TALL + TALL / 2];
        const bend = (top + bottom) / 2;
        drawing.append(
          shape("path", {
            d: `M${middle} ${top} C${middle} ${bend} ${below} ${bend} ${below} ${bottom}`,
            class: "branch",
          }),
        );
      }
    }
    for (const { node, depth, middle } of spots) {
      drawing.append(this.member(state, node, middle, depth * TALL + TALL / 2, depth === 0, selected));
    }
    return drawing;
  }

  member(state, node, x, y, isRoot, selected) {
    const isLost = state.lost.has(node);
    const name = isRoot ? `${opening(this.story.called(node))}, which is there` : `Memory of ${this.story.called(node)}${isLost ? ", lost" : ""}`;
    const colour = isRoot ? this.palette.run(this.index) : this.palette.leaver(this.story.order.get(node) ?? 0);
    const pick = () => this.onpick(node);
    const disc = shape("circle", {
      cx: x,
      cy: y,
      r: RADIUS,
      fill: isRoot ? colour : this.palette.paper,
      stroke: isLost && !isRoot ? this.palette.danger : colour,
      "stroke-width": selected === node ? 4 : 2.4,
      "stroke-dasharray": isLost && !isRoot ? "3 3" : "none",
    });
    const label = shape("text", {
      x,
      y: y + 4,
      "text-anchor": "middle",
      fill: isRoot ? this.palette.paper : this.palette.ink,
    }, String(node));
    return shape("g", {
      class: "member",
      tabindex: 0,
      role: "button",
      "aria-label": name,
      onclick: pick,
      onkeydown: (event) => {
        if (event.key !== "Enter") return;
        event.stopPropagation();
        pick();
      },
    }, disc, label);
  }
}
