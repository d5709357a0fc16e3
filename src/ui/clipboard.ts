/**
 * Copies text.
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
