/**
 * Identifies files by their first bytes.
 *
 * @module
 */

/** A format's characteristic text at an offset, in Latin-1. */
export type Signature = readonly [name: string, offset: number, text: string];

/** Whether a file has this text at an offset. */
export function hasText(file: Uint8Array, offset: number, text: string): boolean {
  if (offset < 0 || offset + text.length > file.length) return false;
  for (let i = 0; i < text.length; i++) {
    if (file[offset + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}

/** Most bytes before the header of a PDF. */
const MAX_JUNK_BYTES = 1024;

/** Whether a file is a PDF, by its first bytes. */
export function isPdf(file: Uint8Array): boolean {
  for (let at = 0; at <= MAX_JUNK_BYTES; at++) {
    if (file[at] === 0x25 && hasText(file, at, "%PDF-")) return true;
  }
  return false;
}

/**
 * Why a file is refused whose format is not supported.
 *
 * @param unread formats that are often sent anyway.
 * @param read names of the supported formats.
 */
export function describeUnread(
  file: Uint8Array,
  { kind, unread, read }: {
    readonly kind: string;
    readonly unread: readonly Signature[];
    readonly read: readonly string[];
  },
): string {
  const [seen] = unread.find(([, offset, text]) => hasText(file, offset, text)) ??
    [nameMarkup(file)];
  const names = read.join(", ");
  return seen === undefined
    ? `The file is not ${kind}: want one of ${names}.`
    : `The file seems to be ${seen}, which is not read; one of ${names} is expected.`;
}

/** Most bytes searched for the tag that tells SVG from a web page: comments, declarations and spaces may precede it. */
const MARKUP_BYTES = 2048;

function nameMarkup(file: Uint8Array): string | undefined {
  const text = new TextDecoder().decode(file.subarray(0, MARKUP_BYTES)).trimStart();
  if (!text.startsWith("<")) return undefined;
  if (/<(!doctype )?html\b/i.test(text)) return "HTML";
  return /<svg\b/i.test(text) ? "SVG" : /^<\?xml\b/i.test(text) ? "XML" : undefined;
}
