/**
 * Copies text and images.
 *
 * @module
 */

/** Puts text on the clipboard, also on pages to which browsers give no `navigator.clipboard`: those at plain `http://`. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return await navigator.clipboard.writeText(text);
  const focused = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
  focused?.focus();
}

/**
 * Puts a PNG image on the clipboard.
 *
 * @throws {Error} where the browser cannot, with the reason in the user's words.
 */
export async function copyImage(image: Blob): Promise<void> {
  if (navigator.clipboard?.write === undefined) {
    throw new Error("Only pages at https:// and localhost may copy images");
  }
  await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
}

/** The colour that the custom property `name` has at `element`, of the scheme in use. */
export function readColour(element: Element, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
