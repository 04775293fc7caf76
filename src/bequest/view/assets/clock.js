// Which round is shown, and how it moves on: rounds pass evenly, and time stands still for a moment
// wherever something happens.

const WHOLE = 16; // seconds that the rounds of a run take
const HOLDS = 14; // seconds that all that happens takes at most
const LONGEST = 1.6;
const SHORTEST = 0.25;
const STILL = 1.2; // seconds per stop where motion is not wanted
const STOPS = 12;

export class Clock {
  constructor(stories, isStill) {
    this.stories = stories;
    this.isStill = isStill;
    this.round = 0;
    this.hold = null; // {round, progress} while time stands still
    this.speed = 1;
    this.isPlaying = false;
    this.listeners = [];
    this.renew();
  }

  // Called again when there is more to see.
  renew() {
    this.end = Math.max(...this.stories.map((story) => Math.max(story.last, 0)), 1);
    const rounds = this.stories.flatMap((story) => story.events.map((event) => event.round));
    this.marks = [...new Set(rounds)].filter((round) => round <= this.end).sort((a, b) => a - b);
    this.holding = Math.min(LONGEST, Math.max(SHORTEST, HOLDS / Math.max(this.marks.length, 1)));
    const even = Array.from({ length: STOPS + 1 }, (_, k) => Math.round((k * this.end) / STOPS));
    this.stops = [...new Set([...even, ...this.marks])].sort((a, b) => a - b);
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  changed() {
    for (const listener of this.listeners) listener();
  }

  seek(round) {
    this.round = Math.min(Math.max(round, 0), this.end);
    this.hold = null;
    this.changed();
  }

  // To the event before or after the present round.
  jump(direction) {
    const now = Math.floor(this.round);
    const next =
      direction > 0
        ? this.marks.find((round) => round > now)
        : [...this.marks].reverse().find((round) => round < now);
    this.seek(next === undefined ? (direction > 0 ? this.end : 0) : next);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    if (this.round >= this.end) this.seek(0);
    this.isPlaying = true;
    this.before = null;
    this.waited = 0;
    this.changed();
    requestAnimationFrame((now) => this.tick(now));
  }

  pause() {
    this.isPlaying = false;
    this.hold = null;
    this.changed();
  }

  tick(now) {
    if (!this.isPlaying) return;
    // A page in the background is not to leap ahead when it is seen again.
    const passed = this.before === null ? 0 : Math.min((now - this.before) / 1000, 0.1);
    this.before = now;
    if (this.isStill) this.proceedByStops(passed * this.speed);
    else this.proceed(passed * this.speed);
    if (this.round >= this.end && !this.hold) this.isPlaying = false;
    this.changed();
    if (this.isPlaying) requestAnimationFrame((later) => this.tick(later));
  }

  proceed(seconds) {
    if (this.hold) {
      this.hold.progress += seconds / this.holding;
      if (this.hold.progress >= 1) this.hold = null;
      return;
    }
    const from = this.round;
    const to = Math.min(from + (seconds * this.end) / WHOLE, this.end);
    const mark = this.marks.find((round) => round > from && round <= to);
    this.round = mark === undefined ? to : mark;
    if (mark !== undefined) this.hold = { round: mark, progress: 0 };
  }

  proceedByStops(seconds) {
    this.waited += seconds;
    if (this.waited < STILL) return;
    this.waited = 0;
    const next = this.stops.find((round) => round > this.round);
    this.round = next === undefined ? this.end : next;
  }
}
