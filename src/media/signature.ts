/**
 * Tells files by their first bytes.
 *
 * @module
 */

/** What files of a format have at an offset, in Latin-1. */
export type Signature = readonly [name: string, offset: number, text: string];

/** Whether a file has these characters at an offset. */
export function hasText(file: Uint8Array, offset: number, text: string): boolean {
  if (offset + text.length > file.length) return false;
  for (let i = 0; i < text.length; i++) {
    if (file[offset + i] !== text.charCodeAt(i)) return false;
  }
  return true;
}

/**
 * Why a file is refused that is of no format that is read.
 *
 * @param unread formats that are often sent all the same.
 * @param read names of the formats that are read.
 */
export function describeUnread(
  file: Uint8Array,
  { kind, unread, read }: {
    readonly kind: string;
    readonly unread: readonly Signature[];
    readonly read: readonly string[];
  },
): string {
  const seen = unread.find(([, offset, text]) => hasText(file, offset, text));
  const names = read.join(", ");
  return seen === undefined
    ? `The file is not ${kind}: want one of ${names}.`
    : `The file seems to be ${seen[0]}, which is not read; one of ${names} is wanted.`;
}
