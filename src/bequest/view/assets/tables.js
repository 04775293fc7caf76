// A table behind every drawing, made when it is opened.
import { fate, heirsChildren, holderOf, memories } from "./story.js";
import { element, number, told, whole } from "./words.js";

const ROWS = 60;
const MOST = 2000;

export class Tables {
  constructor(place, stories, clock) {
    this.stories = stories;
    this.clock = clock;
    this.parts = [
      this.part(place, "Events", "everything that happened", () => this.events()),
      this.part(place, "Nodes", "the network at the round that is shown", () => this.nodes()),
      this.part(place, "Memories", "the family tree at the round that is shown", () => this.memories()),
      this.part(place, "Curves", "the numbers behind the curves", () => this.curves()),
    ];
  }

  part(place, title, about, make) {
    const box = element("div", { class: "scrolled", tabindex: 0, role: "region", "aria-label": title });
    const whole = element("details", { class: "data" }, element("summary", {}, `${title} `, element("span", {}, about)), box);
    const renew = () => {
      if (whole.open) box.replaceChildren(...make());
    };
    whole.addEventListener("toggle", renew);
    place.append(whole);
    return renew;
  }

  renew() {
    for (const renew of this.parts) renew();
  }

  each(make) {
    return this.stories.flatMap((story) => [
      this.stories.length > 1 ? element("h3", {}, story.run.title) : "",
      make(story),
    ]);
  }

  events() {
    const heads = ["round", "node", "what", "heir", "choice", "vectors", "bytes"];
    return this.each((story) =>
      table(heads, story.events.map((event) => [
        whole(event.round),
        event.node,
        told(event),
        event.record.heir ?? event.record.holder ?? "-",
        event.record.choice ?? "-",
        event.record.vectors === undefined ? "-" : number(event.record.vectors),
        event.record.bytes === undefined ? "-" : whole(event.record.bytes),
      ])),
    );
  }

  nodes() {
    return this.each((story) => {
      const state = story.at(Math.floor(this.clock.round));
      const absent = new Set(story.run.network.absent);
      const held = memories(state);
      const talks = new Map();
      for (const { one, other, healed } of state.edges.values()) {
        for (const [node, to] of [[one, other], [other, one]]) {
          if (!talks.has(node)) talks.set(node, []);
          talks.get(node).push(healed ? `${to} (healed)` : String(to));
        }
      }
      const rows = [];
      for (let node = 0; node < Math.min(story.n, MOST); node += 1) {
        rows.push([
          node,
          ...(story.names ? [story.called(node)] : []),
          fate(state, node, absent),
          holderOf(state, node) ?? "-",
          story.isOverview ? "not drawn" : (talks.get(node) || []).join(", ") || "-",
          (held.get(node) || []).join(", ") || "-",
        ]);
      }
      const heads = ["node", ...(story.names ? ["silo"] : []), "state", "remembered by", "talks to", "remembers"];
      return table(heads, rows);
    });
  }

  memories() {
    return this.each((story) => {
      const state = story.at(Math.floor(this.clock.round));
      const rows = [];
      const descend = (node, root, way) => {
        for (const child of heirsChildren(state, node)) {
          rows.push([child, root, [...way, child].reverse().join(" → "), state.lost.has(child) ? "lost" : "remembered"]);
          descend(child, root, [...way, child]);
        }
      };
      for (const root of [...memories(state).keys()].sort((a, b) => a - b)) descend(root, root, [root]);
      return table(["memory of", "held by", "handed down", "state"], rows);
    });
  }

  curves() {
    return this.each((story) => {
      const { curves } = story.run;
      const every = Math.max(1, Math.ceil(curves.rounds.length / ROWS));
      const survivors = story.survivors();
      const shown = curves.rounds.map((_, k) => k).filter((k) => k % every === 0 || k === curves.rounds.length - 1);
      const value = (name, k) => (curves[name] ? number(curves[name][k], "inf") : "unknown");
      return table(
        ["round", "error", "gradient norm", "disagreement", "invariant gap", "nodes"],
        shown.map((k) => [
          whole(curves.rounds[k]),
          value("error", k),
          value("gradient_norm", k),
          value("disagreement", k),
          value("invariant_gap", k),
          survivors[k],
        ]),
      );
    });
  }
}

function table(heads, rows) {
  return element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
    element("tbody", {}, ...rows.slice(0, MOST).map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, String(cell)))))),
  );
}
