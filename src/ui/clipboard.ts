/**
 * Copies text and images.
 *
 * @module
 */

/** Copies text. This also works on pages served over plain `http://`, where browsers offer no `navigator.clipboard`. */
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
 * Copies a PNG image.
 *
 * @throws {Error} with the reason, when the browser cannot copy images.
 */
export async function copyImage(image: Blob): Promise<void> {
  if (navigator.clipboard?.write === undefined) {
    throw new Error("Browsers allow copying images only on https:// pages and localhost");
  }
  await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
}

/** The value of the colour property `name` at `element`, in the current colour scheme. */
export function readColour(element: Element, name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}
