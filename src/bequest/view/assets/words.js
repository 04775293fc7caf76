// Words, numbers and elements: what every part of the page needs to say something.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  // Text is always text: labels and reasons may come from anywhere.
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

export function shape(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function number(value, missing = "unknown") {
  if (value === null || value === undefined) return missing;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 0.01 && size < 10000) return String(Number(value.toPrecision(3)));
  return value.toExponential(1).replace("e+", "e");
}

export function whole(value) {
  return Math.round(value).toLocaleString("en-US");
}

export function bytes(count) {
  if (count < 10000) return `${whole(count)} bytes`;
  return count < 1e7 ? `${number(count / 1024)} KiB` : `${number(count / 1048576)} MiB`;
}

export function plural(count, noun) {
  return `${whole(count)} ${noun}${count === 1 ? "" : "s"}`;
}

export function listed(nodes, most = 12) {
  const shown = nodes.slice(0, most).join(", ");
  return nodes.length > most ? `${shown} and ${nodes.length - most} more` : shown;
}

export const WENT = {
  departure: "left",
  crash: "crashed",
  failure: "failed",
  return: "returned",
  join: "joined",
  forget: "was forgotten",
};

// As it stands at the beginning of a sentence; names of silos stay as they are written.
export function opening(name) {
  return name.startsWith("node ") ? `N${name.slice(1)}` : name;
}

// One sentence about an event, for lists, labels and readers of the screen.
export function told(event) {
  const { kind, node, record, called } = event;
  const subject = opening(called(node));
  if (kind === "return" || kind === "join" || kind === "forget") {
    return `${subject} ${WENT[kind]}: ${record.why}.`;
  }
  const what = kind === "departure" ? "left" : WENT[kind];
  if (record.heir === null || record.heir === undefined) {
    return `${subject} ${what}; no node remembers it.`;
  }
  const lost = record.lost.includes(node) ? ", though its own loss is lost" : "";
  const heir = called(record.heir);
  const how =
    kind === "departure"
      ? `and bequeathed to ${heir}`
      : record.choice === "recall"
        ? `; ${heir} holds what the others lack`
        : `; ${heir} adopted what its buddies kept`;
  return `${subject} ${what}${how.startsWith(";") ? "" : " "}${how}${lost}.`;
}
