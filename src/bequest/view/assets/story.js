// What happened, as states that follow from each other: who is there, who talks to whom, and who
// remembers whom. Everything that is drawn is read off one of these states.
import { WENT, listed } from "./words.js";

const ORDER = { crash: 0, failure: 0, departure: 1, forget: 2, return: 3, join: 4 };
// A state is kept after so many events; others are found by going on from the one before.
const EVERY = 64;

export class Story {
  constructor(run, mostDrawn) {
    this.run = run;
    this.n = run.network.nodes;
    this.isOverview = this.n > mostDrawn;
    this.names = run.network.names || null;
    this.called = (node) => (this.names ? this.names[node] : `node ${node}`);
    this.retell();
  }

  // Several nodes, by their names if they have some.
  listed(nodes) {
    return listed(this.names ? nodes.map(this.called) : nodes);
  }

  // Called again when more has happened.
  retell() {
    const { departures, changes } = this.run;
    const gone = departures.map((record) => ({
      kind: record.crashed ? (record.failed ? "failure" : "crash") : "departure",
      node: record.node,
      round: record.round,
      record,
    }));
    const came = changes.map((record) => ({
      kind: record.kind in WENT ? record.kind : "return",
      node: record.node,
      round: record.round,
      record,
    }));
    this.events = [...gone, ...came].sort((a, b) => a.round - b.round || ORDER[a.kind] - ORDER[b.kind]);
    const told = { called: this.called, listed: (nodes) => this.listed(nodes) };
    this.events.forEach((event, index) => Object.assign(event, told, { index }));
    this.kept = [beginning(this.run.network, this.isOverview)];
    this.latest = null;
    // Leavers have a colour of their own each, in the order in which they first left.
    this.order = new Map();
    for (const event of this.events) {
      if (!this.order.has(event.node)) this.order.set(event.node, this.order.size);
    }
    const known = this.run.curves.rounds;
    this.last = known.length ? known[known.length - 1] : 0;
  }

  // How many events have happened by the end of a round.
  count(round) {
    let low = 0;
    let high = this.events.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.events[middle].round <= round) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The state after the first events, as many as that.
  after(count) {
    if (this.latest && this.latest.count === count) return this.latest.state;
    const start = Math.min(Math.floor(count / EVERY), this.kept.length - 1);
    let state = copied(this.kept[start]);
    for (let done = start * EVERY; done < count; done += 1) {
      happen(state, this.events[done], this.isOverview);
      if ((done + 1) % EVERY === 0 && this.kept.length === (done + 1) / EVERY) {
        this.kept.push(copied(state));
      }
    }
    this.latest = { count, state };
    return state;
  }

  at(round) {
    return this.after(this.count(round));
  }

  // Everything that a node took part in, in order.
  of(node) {
    return this.events.filter(
      ({ record, node: subject }) =>
        subject === node ||
        record.heir === node ||
        record.holder === node ||
        record.sponsor === node ||
        (record.passed_on || []).includes(node),
    );
  }

  // The number of nodes after each of the rounds that there are curves of.
  survivors() {
    const { rounds } = this.run.curves;
    let present = this.n - this.run.network.absent.length;
    let next = 0;
    return rounds.map((round) => {
      for (; next < this.events.length && this.events[next].round <= round; next += 1) {
        const { kind } = this.events[next];
        if (kind === "join" || kind === "return") present += 1;
        else if (kind !== "forget") present -= 1;
      }
      return present;
    });
  }

  // A number that was measured at or before a round.
  measured(name, round) {
    const { rounds } = this.run.curves;
    const values = this.run.curves[name];
    if (!values || !rounds.length) return null;
    return values[Math.max(upTo(rounds, round), 0)];
  }
}

// The place of the last of some ascending numbers that is not above a number; -1 if all are.
export function upTo(ascending, most) {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle] <= most) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function key(one, other) {
  return one < other ? `${one}-${other}` : `${other}-${one}`;
}

function beginning(network, isOverview) {
  const absent = new Set(network.absent);
  const present = new Set();
  for (let node = 0; node < network.nodes; node += 1) if (!absent.has(node)) present.add(node);
  const edges = new Map();
  if (!isOverview) {
    for (const [one, other] of network.edges) {
      if (present.has(one) && present.has(other)) edges.set(key(one, other), { one, other, healed: false });
    }
  }
  return { present, edges, heirs: new Map(), lost: new Set(), forgotten: new Set(), crashed: new Set() };
}

function copied(state) {
  return {
    present: new Set(state.present),
    edges: new Map(state.edges),
    heirs: new Map(state.heirs),
    lost: new Set(state.lost),
    forgotten: new Set(state.forgotten),
    crashed: new Set(state.crashed),
  };
}

function happen(state, event, isOverview) {
  const { kind, node, record } = event;
  if (kind === "departure" || kind === "crash" || kind === "failure") {
    state.present.delete(node);
    for (const [name, { one, other }] of state.edges) {
      if (one === node || other === node) state.edges.delete(name);
    }
    if (!isOverview) {
      for (const [one, other] of record.bridges) state.edges.set(key(one, other), { one, other, healed: true });
    }
    if (kind !== "departure") state.crashed.add(node);
    if (record.heir !== null && record.heir !== undefined) state.heirs.set(node, record.heir);
    for (const one of record.lost) state.lost.add(one);
    return;
  }
  // Its memory is taken out; what it had inherited itself stays where it is.
  const holder = state.heirs.get(node);
  state.heirs.delete(node);
  if (holder !== undefined) {
    for (const [one, heir] of state.heirs) if (heir === node) state.heirs.set(one, holder);
  }
  state.lost.delete(node);
  if (kind === "forget") {
    state.forgotten.add(node);
    return;
  }
  state.present.add(node);
  state.crashed.delete(node);
  state.forgotten.delete(node);
  if (!isOverview) {
    for (const other of record.neighbours) {
      state.edges.set(key(node, other), { one: node, other, healed: false });
    }
  }
}

// The node that is there and remembers this one; undefined if none does.
export function holderOf(state, node) {
  let holder = state.heirs.get(node);
  for (let steps = 0; holder !== undefined && !state.present.has(holder); steps += 1) {
    if (steps > state.heirs.size) return undefined;
    holder = state.heirs.get(holder);
  }
  return state.lost.has(node) || state.forgotten.has(node) ? undefined : holder;
}

// Node that is there -> the nodes it remembers, ascending.
export function memories(state) {
  const held = new Map();
  for (const node of state.heirs.keys()) {
    const holder = holderOf(state, node);
    if (holder === undefined || state.present.has(node)) continue;
    if (!held.has(holder)) held.set(holder, []);
    held.get(holder).push(node);
  }
  for (const nodes of held.values()) nodes.sort((a, b) => a - b);
  return held;
}

// The nodes that bequeathed to this one directly.
export function heirsChildren(state, node) {
  return [...state.heirs].filter(([, heir]) => heir === node).map(([one]) => one).sort((a, b) => a - b);
}

// What has become of a node, in one word.
export function fate(state, node, absent) {
  if (state.present.has(node)) return "there";
  if (state.forgotten.has(node)) return "forgotten";
  if (holderOf(state, node) !== undefined) return "remembered";
  if (state.lost.has(node) || state.crashed.has(node)) return "lost";
  return absent.has(node) ? "not there yet" : "lost";
}
