/**
 * Roman numerals.
 *
 * @module
 */

const VALUES: Readonly<Record<string, number>> = { I: 1, V: 5, X: 10, L: 50 };

/** The number in ASCII digits. */
export function parseRoman(numeral: string): string {
  const values = [...numeral].map((letter) => VALUES[letter]!);
  const sum = values.reduce(
    (sum, value, i) => sum + (value < (values[i + 1] ?? 0) ? -value : value),
    0,
  );
  return String(sum);
}
