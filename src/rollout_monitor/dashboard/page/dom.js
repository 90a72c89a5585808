// Small helpers. Text from outside only ever becomes text: nothing here, or anywhere, writes markup from a string.

export const ABSENT = "–";

/** Set an element's text, and touch the page only where it is another one. */
export function say(element, text) {
  if (element.shown !== text) {
    element.shown = text;
    element.textContent = text;
  }
}

/** Set an attribute, or remove it where the value is null. */
export function mark(element, name, value) {
  if (value === null) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== value) {
    element.setAttribute(name, value);
  }
}

/** A new element with a class and text. */
export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Children of `parent`, one per item, made with `build` and filled with `fill`; what is there is used again. */
export function list(parent, items, build, fill) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  while (parent.childElementCount < items.length) parent.append(build());
  items.forEach((item, index) => fill(parent.children[index], item));
}

export const percent = (value) => (value === null || value === undefined ? ABSENT : `${Math.round(value * 100)} %`);

export const figure = (value, digits) =>
  value === null || value === undefined ? ABSENT : value.toFixed(digits).replace("-", "−");

/** Seconds, as short as an operator reads them. */
export function seconds(value) {
  if (value === null || value === undefined) return ABSENT;
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(1)} s`;
  if (value < 3600) return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
  return `${(value / 3600).toFixed(1)} h`;
}
