// Puts the page together, and keeps all parts at the same round.
import { Charts } from "./charts.js";
import { Clock } from "./clock.js";
import { Details } from "./details.js";
import { NetworkView } from "./network.js";
import { follow } from "./news.js";
import { Palette } from "./palette.js";
import { Story } from "./story.js";
import { Tables } from "./tables.js";
import { Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { element, number, plural, whole } from "./words.js";

const data = JSON.parse(document.getElementById("data").textContent);
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const palette = new Palette();
const byId = (id) => document.getElementById(id);
let page = null;

class Page {
  constructor(shown) {
    this.runs = shown.map((index) => data.runs[index]);
    this.stories = this.runs.map((run) => new Story(run, data.mostDrawn));
    this.clock = new Clock(this.stories, still.matches);
    document.body.classList.toggle("pair", this.runs.length > 1);
    for (const id of ["networks", "curves", "trees", "tables"]) byId(id).replaceChildren();
    this.networks = this.stories.map((story, index) => this.network(story, index));
    this.charts = new Charts(byId("curves"), this.stories, this.clock, palette);
    this.trees = this.stories.map((story, index) => this.tree(story, index));
    this.details = new Details(byId("details"), this.stories, this.clock, palette);
    this.tables = new Tables(byId("tables"), this.stories, this.clock);
    this.timeline = new Timeline(byId("timeline"), this.stories, this.clock, palette);
    this.timeline.onevent = (run, event) => this.details.goTo(run, event);
    this.details.onchoose = () => this.draw();
    this.clock.listen(() => this.draw());
    this.tell();
  }

  network(story, index) {
    const canvas = element("canvas", { class: "network", role: "application", tabindex: 0 });
    const title = element("figcaption", {}, swatch(index, this.runs.length), element("strong", {}, story.run.title), element("span", { class: "quiet" }, story.run.source));
    byId("networks").append(element("figure", {}, title, canvas));
    const view = new NetworkView(canvas, story, palette, index);
    view.onpick = (node) => this.choose(node === null ? null : { run: index, node });
    view.onhover = () => this.draw();
    return view;
  }

  tree(story, index) {
    const place = element("div", { class: "families" });
    const title = this.runs.length > 1 ? element("h3", {}, swatch(index, 2), story.run.title) : "";
    byId("trees").append(element("div", {}, title, place));
    const tree = new Tree(place, story, palette, index);
    tree.onpick = (node) => this.choose({ run: index, node });
    return tree;
  }

  // On a narrow window the story is further down.
  choose(chosen) {
    this.details.choose(chosen);
    if (chosen) byId("details").scrollIntoView({ block: "nearest", behavior: still.matches ? "auto" : "smooth" });
  }

  // What stands above the drawings: numbers, and what has to be known about the files.
  tell() {
    const cards = byId("summary");
    cards.replaceChildren();
    this.stories.forEach((story, index) => {
      const { run } = story;
      const gone = new Set(run.departures.map((record) => record.node));
      const sent = run.departures.reduce((sum, record) => sum + record.bytes, 0);
      const state = story.after(story.events.length);
      const remembered = [...state.heirs.keys()].filter((node) => !state.lost.has(node) && !state.present.has(node));
      const facts = [
        [run.whole ? run.status : "so far", `after ${plural(story.last, "round")}`],
        [number(story.measured("error", story.last)), "error"],
        [`${state.present.size} of ${story.n}`, "nodes are left"],
        [`${remembered.length} of ${gone.size}`, "remembered"],
        [whole(sent), "bytes of farewells"],
      ];
      const row = element("div", { class: "cards" }, this.runs.length > 1 ? element("h2", {}, swatch(index, 2), run.title) : null);
      for (const [value, about] of facts) row.append(element("div", { class: "card" }, element("strong", {}, value), element("span", {}, about)));
      cards.append(row);
    });
    const notes = [...new Set(this.runs.flatMap((run) => run.notes.map((note) => (this.runs.length > 1 ? `${run.title}: ${note}` : note))))];
    byId("notes").replaceChildren(...notes.map((note) => element("p", {}, note)));
    const { method, network } = this.runs[0];
    byId("about").textContent = [plural(network.nodes, "node"), plural(network.edges.length, "edge"), method].filter(Boolean).join(" · ");
  }

  renew() {
    const wasAtEnd = this.clock.round >= this.clock.end;
    for (const story of this.stories) story.retell();
    this.clock.renew();
    this.charts.renew();
    this.timeline.renew();
    this.details.renew();
    this.tables.renew();
    this.tell();
    if (wasAtEnd && !this.clock.isPlaying) this.clock.round = this.clock.end;
    this.draw();
  }

  // Several things may ask for it before the next frame.
  draw() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      if (page === this) this.drawNow();
    });
  }

  drawNow() {
    const { chosen } = this.details;
    this.networks.forEach((view, index) => {
      const selected = chosen && chosen.run === index ? this.details.node : null;
      view.draw(this.clock, selected);
      this.trees[index].draw(this.clock, selected);
    });
    this.charts.draw();
    this.timeline.draw();
    this.details.draw();
    if (!this.clock.isPlaying) this.settle();
  }

  // What readers of the screen hear, and tables, follow when nothing moves.
  settle() {
    clearTimeout(this.settling);
    this.settling = setTimeout(() => {
      for (const view of this.networks) view.canvas.setAttribute("aria-label", view.words(this.clock));
      this.tables.renew();
    }, 150);
  }
}

function swatch(index, count) {
  return count > 1 ? element("span", { class: `swatch run-${index}`, "aria-hidden": "true" }) : null;
}

function pickers() {
  const place = byId("pickers");
  if (data.runs.length < 2) return () => [0];
  const options = (none) => [
    ...(none ? [element("option", { value: -1 }, "nothing")] : []),
    ...data.runs.map((run, index) => element("option", { value: index }, run.title)),
  ];
  const first = element("select", { id: "first" }, ...options(false));
  const second = element("select", { id: "second" }, ...options(true));
  first.value = 0;
  second.value = data.runs.length === 2 ? 1 : data.runs.length - 1;
  place.append(element("label", {}, "Show ", first), element("label", {}, "beside it ", second));
  const chosen = () => [Number(first.value), Number(second.value)].filter((index, place) => index >= 0 && (place === 0 || index !== Number(first.value)));
  first.onchange = second.onchange = () => show(chosen());
  return chosen;
}

function show(indices) {
  if (page) page.clock.pause();
  const round = page ? page.clock.round : asked("round", 0);
  page = new Page(indices);
  page.clock.seek(Number(round));
}

function asked(name, missing) {
  return new URLSearchParams(location.hash.slice(1)).get(name) ?? missing;
}

// --- the whole page ------------------------------------------------------------------------

let chosenTheme = "";

function choose(theme) {
  chosenTheme = theme;
  repaint(theme);
  byId("theme").setAttribute("aria-pressed", String(palette.isDark));
}

function repaint(theme) {
  document.documentElement.dataset.theme = theme;
  palette.renew();
  if (!page) return;
  page.renew();
  page.drawNow();
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { target } = event;
  if (target.closest("select, textarea, summary") || byId("help").open) return;
  const onButton = target.closest("button, [role=button]");
  const { clock } = page;
  const step = event.shiftKey ? Math.max(1, Math.round(clock.end / 50)) : 1;
  const acts = {
    " ": onButton ? null : () => clock.toggle(),
    k: () => clock.toggle(),
    ArrowRight: () => clock.seek(Math.floor(clock.round) + step),
    ArrowLeft: () => clock.seek(Math.floor(clock.round) - step),
    "]": () => clock.jump(1),
    "[": () => clock.jump(-1),
    Home: () => clock.seek(0),
    End: () => clock.seek(clock.end),
    Escape: () => page.details.choose(null),
    "?": () => byId("help").showModal(),
  };
  const act = acts[event.key];
  if (!act) return;
  event.preventDefault();
  act();
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", () => choose(""));
still.addEventListener("change", () => (page.clock.isStill = still.matches));
byId("theme").onclick = () => choose(palette.isDark ? "light" : "dark");
byId("keys").onclick = () => byId("help").showModal();
document.addEventListener("keydown", keys);
new ResizeObserver(() => {
  if (page) page.draw();
}).observe(document.body);
// Paper is white: what is drawn has to be dark on it.
window.addEventListener("beforeprint", () => repaint("light"));
window.addEventListener("afterprint", () => repaint(chosenTheme));
choose(asked("theme", ""));
show(pickers()());
if (asked("node", null) !== null) page.details.choose({ run: 0, node: Number(asked("node")) });
if (data.live) {
  document.body.classList.add("live");
  page.clock.seek(page.clock.end); // where it is now, until the reader goes elsewhere
  follow(data.runs[0], (isOver) => {
    document.body.classList.toggle("live", !isOver);
    page.renew();
  });
}
byId("version").textContent = `bequest ${data.bequest}`;
// For tests of the page, and for the curious.
window.bequest = { get page() { return page; }, data };
