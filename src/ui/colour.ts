/**
 * Colours of the style sheet for canvases, which know no custom properties.
 *
 * @module
 */

/** The colour that the custom property `name` has at `element`, of the scheme in use. */
export function readColour(element: Element, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
