// What the reader asked about: all that happened, the story of a node, or what a departure compared.
import { fate, holderOf, memories } from "./story.js";
import { sign } from "./timeline.js";
import { bytes, element, number, opening, plural, shape, told, WENT, whole } from "./words.js";

const MOST_LISTED = 200;

export class Details {
  constructor(place, stories, clock, palette) {
    this.place = place;
    this.stories = stories;
    this.clock = clock;
    this.palette = palette;
    this.chosen = null; // {run, node} or {run, event}
    this.onchoose = () => {};
    this.drawn = null;
  }

  choose(chosen) {
    this.chosen = chosen;
    this.drawn = null;
    this.onchoose();
  }

  get node() {
    if (!this.chosen) return null;
    return this.chosen.event ? this.chosen.event.node : this.chosen.node;
  }

  renew() {
    this.drawn = null;
  }

  draw() {
    const counts = this.stories.map((story) => story.count(Math.floor(this.clock.round)));
    const is = `${counts}/${this.palette.isDark}`;
    if (is === this.drawn) return;
    this.drawn = is;
    // The reader's place in the panel is kept while time goes on.
    const focused = this.place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const made = this.chosen
      ? this.chosen.event
        ? this.departure(this.chosen.run, this.chosen.event)
        : this.story(this.chosen.run, this.chosen.node)
      : this.everything(counts);
    this.place.replaceChildren(...made);
    if (focused) this.place.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  name(run) {
    return this.stories.length > 1 ? ` · ${this.stories[run].run.title}` : "";
  }

  back() {
    return element("button", {
      class: "back",
      "data-key": "back",
      onclick: () => this.choose(null),
    }, "‹ All events");
  }

  // --- all that happened -------------------------------------------------------------------

  everything(counts) {
    const rows = this.stories.flatMap((story, run) => story.events.map((event) => ({ run, event })));
    rows.sort((a, b) => a.event.round - b.event.round || a.run - b.run);
    if (!rows.length) return [element("h2", {}, "What happened"), element("p", { class: "quiet" }, "No node left.")];
    const list = element("ol", { class: "events" });
    for (const { run, event } of rows.slice(0, MOST_LISTED)) {
      const isPast = event.index < counts[run];
      const button = element(
        "button",
        { class: isPast ? "past" : "", "data-key": `${run}-${event.index}`, onclick: () => this.goTo(run, event) },
        sign(event.kind, this.palette.leaver(this.stories[run].order.get(event.node) ?? 0), this.palette),
        element("span", { class: "when" }, whole(event.round)),
        element("span", {}, told(event), this.stories.length > 1 ? element("em", {}, this.name(run)) : null),
      );
      list.append(element("li", {}, button));
    }
    const more = rows.length - MOST_LISTED;
    return [
      element("h2", {}, "What happened"),
      list,
      more > 0 ? element("p", { class: "quiet" }, `and ${more} more, in the table below`) : "",
    ];
  }

  goTo(run, event) {
    this.clock.pause();
    this.clock.seek(event.round);
    this.choose({ run, event });
  }

  // --- a node ------------------------------------------------------------------------------

  story(run, node) {
    const story = this.stories[run];
    const state = story.at(Math.floor(this.clock.round));
    const absent = new Set(story.run.network.absent);
    const is = fate(state, node, absent);
    const holder = holderOf(state, node);
    const held = memories(state).get(node);
    const talks = [...state.edges.values()]
      .filter(({ one, other }) => one === node || other === node)
      .map(({ one, other }) => (one === node ? other : one))
      .sort((a, b) => a - b);
    const now = [["now", is === "remembered" ? `remembered by ${story.called(holder)}` : is]];
    if (is === "there" && !story.isOverview) now.push(["talks to", story.listed(talks) || "no node"]);
    if (held) now.push(["remembers", story.listed(held)]);
    const events = story.of(node);
    const list = element("ol", { class: "events" });
    for (const event of events) {
      list.append(
        element("li", {},
          element(
            "button",
            { "data-key": `${run}-${event.index}`, onclick: () => this.goTo(run, event) },
            sign(event.kind, this.palette.leaver(story.order.get(event.node) ?? 0), this.palette),
            element("span", { class: "when" }, whole(event.round)),
            element("span", {}, this.part(event, node)),
          ),
        ),
      );
    }
    const own = events.filter((event) => event.node === node && event.record.choice);
    return [
      this.back(),
      element("h2", {}, opening(story.called(node)), element("em", {}, this.name(run))),
      facts(now),
      events.length ? list : element("p", { class: "quiet" }, "It took part from the start to the end, and inherited nothing."),
      ...own.flatMap((event) => this.decision(event)),
    ];
  }

  // What an event means for a node that takes part in it.
  part(event, node) {
    if (event.node === node) return told(event);
    const { record, called } = event;
    const other = called(event.node);
    if (record.heir === node) return `It inherited from ${other}${record.passed_on.length ? `, which passed on ${event.listed(record.passed_on)}` : ""}.`;
    if ((record.passed_on || []).includes(node)) return `Its memory was passed on by ${other} to ${called(record.heir)}.`;
    if (record.holder === node) return `Its memory of ${other}, which ${WENT[event.kind]}, was taken out.`;
    return `It was the sponsor of ${other}.`;
  }

  // --- a departure -------------------------------------------------------------------------

  departure(run, event) {
    const { record } = event;
    const head = [
      this.back(),
      element("h2", {}, `${opening(event.called(event.node))} ${WENT[event.kind]}`, element("em", {}, this.name(run))),
      element("p", {}, told(event)),
    ];
    const more = element("button", {
      class: "link",
      "data-key": "node",
      onclick: () => this.choose({ run, node: event.node }),
    }, `The story of ${event.called(event.node)}`);
    if (!record.choice) {
      const rows = [["after round", whole(event.round)], ["why", record.why]];
      if (record.neighbours.length) rows.push(["talks to", this.stories[run].listed(record.neighbours)]);
      rows.push(["exact", record.exact ? "yes: nothing of the old memory remains" : "no: it had been compressed with others"]);
      return [...head, facts(rows), more];
    }
    return [...head, ...this.decision(event), more];
  }

  decision(event) {
    const { record } = event;
    const rows = [
      ["after round", whole(event.round)],
      ["will", record.will],
      ["choice", record.choice],
      ["why", record.why],
      ["farewell", record.vectors ? `${plural(Number(record.vectors.toPrecision(3)), "vector")}, ${bytes(record.bytes)}` : "none"],
    ];
    if (record.checkpoint !== null && record.checkpoint !== undefined) rows.push(["checkpoint", `of round ${whole(record.checkpoint)}`]);
    if (record.passed_on.length) rows.push(["passed on", `the memories of ${event.listed(record.passed_on)}`]);
    if (record.lost.length) rows.push(["lost", `no node remembers ${event.listed(record.lost)}`]);
    if (record.bridges.length) rows.push(["healed", `new edges ${record.bridges.map((pair) => pair.join("–")).join(", ")}`]);
    return [facts(rows), ...this.branches(record)];
  }

  // What each branch would cost: at most, as predicted, and as it turned out.
  branches(record) {
    const kinds = [
      ["bounds", "at most"],
      ["predicted", "predicted"],
      ["hindsight", "hindsight"],
    ].filter(([name]) => Object.keys(record[name] || {}).length);
    const names = [...new Set(kinds.flatMap(([name]) => Object.keys(record[name])))];
    if (!names.length) return [element("p", { class: "quiet" }, "No branches were compared.")];
    const known = kinds.flatMap(([name]) => Object.values(record[name])).filter((value) => value > 0);
    const [low, high] = [Math.log10(Math.min(...known)) - 0.4, Math.log10(Math.max(...known))];
    const best = least(record.hindsight);
    const body = element("tbody");
    for (const name of names) {
      const row = element("tr", { class: name === record.choice ? "chosen" : "" });
      const marks = [name === record.choice ? "chosen" : "", name === best ? "best" : ""].filter(Boolean);
      row.append(element("th", { scope: "row" }, name, ...marks.map((mark) => element("small", {}, ` ${mark}`))));
      for (const [kind] of kinds) {
        const value = record[kind][name];
        const length = value > 0 && high > low ? (Math.log10(value) - low) / (high - low) : 0;
        row.append(element("td", {}, bar(length, kind), element("span", {}, number(value, "-"))));
      }
      body.append(row);
    }
    const heads = kinds.map(([, title]) => element("th", { scope: "col" }, title));
    return [
      element("h3", {}, "Branches compared"),
      element("table", { class: "branches" },
        element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "branch"), ...heads)),
        body,
      ),
      element("p", { class: "quiet" }, "How far each branch moves the optimum; bars on a log scale. No will has ever seen the hindsight."),
    ];
  }
}

function least(values) {
  const known = Object.entries(values || {}).filter(([, value]) => value !== null);
  if (known.length < 2) return null;
  return known.reduce((one, other) => (other[1] < one[1] ? other : one))[0];
}

function bar(part, kind) {
  const width = Math.max(part, 0) * 64;
  return shape("svg", { width: 64, height: 8, class: `bar ${kind}`, "aria-hidden": "true" },
    shape("rect", { x: 0, y: 1, width, height: 6, rx: 3 }),
  );
}

function facts(rows) {
  return element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}
