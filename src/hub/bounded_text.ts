/**
 * Texts of servers that may send anything, of any length.
 *
 * @module
 */

const MAX_SHOWN = 300;
/** Control and format characters, which terminals obey: escapes, new lines, marks that turn the direction of writing. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]+/gu;

/**
 * Reads an answer's body as UTF-8, `maxBytes` at most; the rest is not received.
 *
 * @returns the text, and whether that is all of it.
 */
export async function readBounded(
  response: Response,
  maxBytes: number,
): Promise<{ readonly text: string; readonly isWhole: boolean }> {
  const decoder = new TextDecoder();
  let text = "";
  let numBytes = 0;
  for await (const piece of response.body ?? []) {
    const room = maxBytes - numBytes;
    text += decoder.decode(piece.subarray(0, room), { stream: true });
    // Leaving the loop cancels the body.
    if (piece.length > room) return { text, isWhole: false };
    numBytes += piece.length;
  }
  return { text: text + decoder.decode(), isWhole: true };
}

/** A text on one line that fits into a message, without characters that a terminal would obey. */
export function cleanText(text: string): string {
  // Cut first: what follows is read as a whole.
  const clean = text.slice(0, 4 * MAX_SHOWN).replaceAll(UNSEEN, " ").trim();
  const points = [...clean];
  return points.length <= MAX_SHOWN ? clean : `${points.slice(0, MAX_SHOWN).join("")}…`;
}

/** Whether a name can be shown as it is. */
export function isPlainName(name: string): boolean {
  return name.search(UNSEEN) < 0;
}
