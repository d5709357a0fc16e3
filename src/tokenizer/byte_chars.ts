/**
 * Byte-level BPE spells each byte as a printable character (Radford et al. 2019, GPT-2's `bytes_to_unicode`).
 *
 * @module
 */

/** The character of each byte. */
const CHARS: string[] = [];
/** The byte by code unit; -1 if there is none. */
const BYTES = new Int16Array(0x200).fill(-1);

for (let byte = 0, numShifted = 0; byte < 256; byte++) {
  const isPrintable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte !== 0xad);
  const unit = isPrintable ? byte : 0x100 + numShifted++;
  CHARS[byte] = String.fromCharCode(unit);
  BYTES[unit] = byte;
}

const encoder = new TextEncoder();
const PRINTABLE_ASCII = /^[!-~]*$/;

/** The UTF-8 bytes of a text, spelled. */
export function spellBytes(text: string): string {
  if (PRINTABLE_ASCII.test(text)) return text;
  let spelled = "";
  for (const byte of encoder.encode(text)) spelled += CHARS[byte]!;
  return spelled;
}

/** The bytes that a token spells; its own, if it has a character that spells none. */
export function bytesOfSpelling(token: string): Uint8Array {
  const bytes = new Uint8Array(token.length);
  for (let i = 0; i < token.length; i++) {
    const byte = BYTES[token.charCodeAt(i)] ?? -1;
    if (byte < 0) return encoder.encode(token);
    bytes[i] = byte;
  }
  return bytes;
}
