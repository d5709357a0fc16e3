/**
 * Removes from a text what is not spoken: markup, emoji and the like.
 *
 * @module
 */

/** Applied in this order. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // Joiners, soft hyphens, marks of direction, selectors of an emoji's looks: they stand within words.
  [/[\p{Cf}\u{fe00}-\u{fe0f}]+/gu, ""],
  [/\p{Cc}+/gu, " "],
  [/[\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}\u{1f1e6}-\u{1f1ff}\u20e3]+/gu, " "],
  // Markup: what looks like a comparison stays.
  [/<\/?[a-z][a-z0-9-]*(?:\s+[\w:-]+=(?:"[^"<>]*"|'[^'<>]*'))*\s*\/?>/gi, " "],
  [/[\u2018\u2019\u201b\u2032]/g, "'"],
  [/[\u201c\u201d\u201e\u2033]/g, '"'],
  [/\u2026/g, "..."],
  [/[\u2010\u2011\u2212]/g, "-"],
  // Markdown, which is what language models write.
  [/!?\[([^\][]{1,300})\]\([^()\s]{1,500}\)/g, "$1"],
  [/(\*{1,3}|`{1,3}|~~)(?=\S)([^*`~]{1,500}?)(?<=\S)\1/g, "$2"],
  [/^\s*(#{1,6}|[-*+\u2022]|>)\s+/, ""],
  [/\bhttps?:\/\/(www\.)?/gi, ""],
  [/\s+/g, " "],
];

/** A piece of text on one line, without emoji, markup and the like. */
export function cleanText(text: string): string {
  let clean = text.normalize("NFC");
  for (const [pattern, replacement] of RULES) clean = clean.replace(pattern, replacement);
  return clean.trim();
}
