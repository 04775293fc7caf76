// The timeline: play, pause, the slider, and marks where something happens.
import { element, shape, told, whole } from "./words.js";

const MOST_MARKS = 400;

export class Timeline {
  constructor(place, stories, clock, palette) {
    this.stories = stories;
    this.clock = clock;
    this.palette = palette;
    this.onevent = () => {};
    this.button = place.querySelector("#play");
    this.slider = place.querySelector("#round");
    this.said = place.querySelector("#now");
    this.marks = place.querySelector("#marks");
    this.button.onclick = () => clock.toggle();
    place.querySelector("#before").onclick = () => clock.jump(-1);
    place.querySelector("#after").onclick = () => clock.jump(1);
    place.querySelector("#speed").onchange = (event) => (clock.speed = Number(event.target.value));
    this.slider.oninput = () => {
      if (clock.isPlaying) clock.pause();
      clock.seek(Number(this.slider.value));
    };
    this.renew();
  }

  renew() {
    this.slider.max = this.clock.end;
    this.marks.replaceChildren();
    const several = this.stories.length > 1;
    this.stories.forEach((story, index) => {
      for (const event of story.events.slice(0, MOST_MARKS)) {
        this.marks.append(this.mark(event, story, index, several));
      }
    });
  }

  mark(event, story, index, several) {
    const left = (100 * event.round) / this.clock.end;
    const colour = this.palette.leaver(story.order.get(event.node) ?? 0);
    const made = element("button", {
      class: `mark ${event.kind}`,
      style: `left:${left}%;top:${several ? index * 50 : 22}%`,
      title: `After round ${whole(event.round)}: ${told(event)}`,
      "aria-label": `After round ${event.round}: ${told(event)}`,
      tabindex: -1, // the list of events has the same, in order
      onclick: () => this.onevent(index, event),
    });
    made.append(sign(event.kind, colour, this.palette));
    return made;
  }

  draw() {
    const { clock } = this;
    const round = Math.floor(clock.round);
    this.slider.value = round;
    this.slider.setAttribute("aria-valuetext", `round ${round} of ${clock.end}`);
    this.said.textContent = `${whole(round)} / ${whole(clock.end)}`;
    const is = clock.isPlaying ? "Pause" : "Play";
    if (this.button.getAttribute("aria-label") !== is) {
      this.button.setAttribute("aria-label", is);
      this.button.classList.toggle("playing", clock.isPlaying);
    }
  }
}

// The sign of an event, in marks and lists.
export function sign(kind, colour, palette) {
  const drawing = shape("svg", { width: 14, height: 14, viewBox: "0 0 14 14", "aria-hidden": "true" });
  const stroke = { "stroke-width": 2.4, "stroke-linecap": "round", fill: "none" };
  if (kind === "crash" || kind === "failure") {
    drawing.append(shape("path", { d: "M3 3L11 11M11 3L3 11", stroke: palette.danger, ...stroke }));
  } else if (kind === "departure") {
    drawing.append(shape("path", { d: "M2 3H12L7 12Z", fill: colour }));
  } else if (kind === "return") {
    drawing.append(shape("path", { d: "M2 11H12L7 2Z", fill: colour }));
  } else if (kind === "join") {
    drawing.append(shape("path", { d: "M7 2V12M2 7H12", stroke: palette.heal, ...stroke }));
  } else {
    drawing.append(shape("path", { d: "M2 7H12", stroke: palette.muted, ...stroke }));
  }
  return drawing;
}
