// Colours, read from the style sheet so that light and dark are decided in one place.

const NAMES = ["paper", "ink", "muted", "line", "first", "second", "danger", "heal", "soft", "glow"];

export class Palette {
  constructor() {
    this.renew();
  }

  renew() {
    const style = getComputedStyle(document.documentElement);
    for (const name of NAMES) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.isDark = style.getPropertyValue("--is-dark").trim() === "1";
  }

  // The colour of a leaver: far from those of the leavers before it.
  leaver(order, alpha = 1) {
    const hue = (165 + order * 137.508) % 360;
    return this.isDark ? `hsl(${hue} 72% 68% / ${alpha})` : `hsl(${hue} 68% 40% / ${alpha})`;
  }

  run(index) {
    return index === 0 ? this.first : this.second;
  }
}

// A canvas as sharp as the screen is; returns its context and its size in CSS pixels.
export function prepared(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}
