/**
 * Text to standard output and standard error.
 *
 * @module
 */

const encoder = new TextEncoder();

/** Writes all of `text` before it returns. A reader that has gone (`hearth | head`) does not end the program. */
export function writeText(
  target: { writeSync(bytes: Uint8Array): number },
  text: string,
): void {
  let rest = encoder.encode(text);
  try {
    // A pipe may take less than it is offered.
    while (rest.length > 0) rest = rest.subarray(target.writeSync(rest));
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}
