/**
 * The printable characters by which byte-level BPE spells bytes (Radford et al. 2019, GPT-2's `bytes_to_unicode`).
 *
 * @module
 */

/** Characters by byte. */
const CHARS: string[] = [];
/** Bytes by code unit; -1 if the character spells none. */
const BYTES = new Int16Array(0x200).fill(-1);

for (let byte = 0, numShifted = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  const unit = isPrintable ? byte : 0x100 + numShifted++;
  CHARS[byte] = String.fromCharCode(unit);
  BYTES[unit] = byte;
}

const encoder = new TextEncoder();
const PRINTABLE_ASCII = /^[!-~]*$/;

/** Spells the UTF-8 bytes of a text. */
export function spellBytes(text: string): string {
  if (PRINTABLE_ASCII.test(text)) return text;
  let spelled = "";
  for (const byte of encoder.encode(text)) spelled += CHARS[byte]!;
  return spelled;
}

/** The bytes that a token spells; if it has a character that spells none, the UTF-8 bytes of the token itself. */
export function readSpelledBytes(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTES[token.charCodeAt(i)] ?? -1;
    if (byte < 0) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
