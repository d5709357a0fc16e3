/**
 * Removes what is not spoken from a text, such as markup and emoji.
 *
 * @module
 */

/** Replacements, applied in this order. */
const RULES: readonly (readonly [RegExp, string])[] = [
  // Narrow and non-breaking spaces between groups of digits.
  [/(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))/g, ""],
  // Invisible characters within words: joiners, soft hyphens, direction marks, variation selectors of emoji.
  [/[\p{Cf}\u{fe00}-\u{fe0f}]+/gu, ""],
  [/\p{Cc}+/gu, " "],
  [
    /(?![\u00a9\u00ae\u2122\u2190-\u21ff])[\p{Extended_Pictographic}\u{1f3fb}-\u{1f3ff}\u{1f1e6}-\u{1f1ff}\u20e3]+/gu,
    " ",
  ],
  // Emoticons.
  [/(?<=^|\s)(?:[:;=]['-]?[()DPpO|\/]|[xX]D|\^\^|\^_\^)(?=\s|$)/g, " "],
  [/<!--.*?-->/g, " "],
  // Markup; comparisons that look like it stay.
  [/<\/?[a-z][a-z0-9-]*(?:\s+[\w:-]+=(?:"[^"<>]*"|'[^'<>]*'))*\s*\/?>/gi, " "],
  [/&nbsp;/g, " "],
  [/&lt;/g, "<"],
  [/&gt;/g, ">"],
  [/&quot;/g, '"'],
  [/&(?:apos|#39);/g, "'"],
  [/&amp;/g, "&"],
  [/[\u2018\u2019\u201b\u2032]/g, "'"],
  [/[\u201c\u201d\u201e\u2033]/g, '"'],
  [/\u2026/g, "..."],
  [/[\u2010\u2011]/g, "-"],
  [/\s+-{2,3}\s+|(?<=\w)--(?=\w)/g, " \u2014 "],
  // Markdown, which is what language models write.
  [/!?\[([^\][]{0,300})\]\([^()\s]{1,500}\)/g, "$1"],
  [/`{3,}\w*/g, " "],
  [/^\s*(?:[-*_=]\s*){3,}$/, ""],
  [/^\s*\|[-:|\s]+$/, ""],
  [/^\s*\|\s*|\s*\|\s*$/g, ""],
  [/\s+\|\s+/g, ", "],
  [/(\*{1,3}|`{1,3}|~~)(?=\S)([^*`~]{1,500}?)(?<=\S)\1/g, "$2"],
  [/^\s*(#{1,6}|[-*+\u2022](?:\s+\[[ x]\])?|>)\s+/i, ""],
  [/\s+/g, " "],
];

/** Cleans a text: one line, without emoji and markup. */
export function cleanText(text: string): string {
  let clean = text.normalize("NFC");
  for (const [pattern, replacement] of RULES) clean = clean.replace(pattern, replacement);
  return clean.trim();
}
