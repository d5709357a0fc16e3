/**
 * English.
 *
 * @module
 */
import type { Language } from "../language.ts";
import { TableLexicon } from "../lexicon.ts";
import { createNormalizer } from "../language.ts";
import { type Rule, verbatim } from "../token.ts";
import type { AmountSyntax } from "../amount_rules.ts";
import { ENGLISH_ABBREVIATIONS, ENGLISH_LEXICON } from "./english_lexicon.ts";
import { EnglishNumbers, isFraction } from "./english_numbers.ts";
import { romanRules } from "./english_roman.ts";
import {
  englishAmountRules,
  englishDateRules,
  englishNumberRules,
  englishTelephoneRules,
  englishTimeRules,
  englishYearRules,
} from "./english_rules.ts";
import { readScales } from "./shared.ts";

const AMOUNTS: AmountSyntax = {
  decimalSign: ".",
  scales: readScales({
    hundred: "hundred",
    thousand: "thousand k K",
    million: "million m mn M",
    billion: "billion b bn B",
    trillion: "trillion t T",
  }),
  words: ["in"],
  codes: ["A", "B", "J", "N", "d"],
};

const ROADS: Readonly<Record<string, string>> = {
  St: "Street",
  Ave: "Avenue",
  Rd: "Road",
  Blvd: "Boulevard",
  Ln: "Lane",
  Dr: "Drive",
  Hwy: "Highway",
};

/** Words of letters with full stops between them, roads, saints and signs between words. */
const WORD_RULES: readonly Rule[] = [
  { pattern: /(?<!\p{L})Ph\.?\s?D\b(?:\.(?=\s*[^\s"')]))?/uy, read: () => verbatim("P H D") },
  { pattern: /(?<!\p{L})C\+\+/uy, read: () => verbatim("C plus plus") },
  { pattern: /(?<!\p{L})([CF])#(?!\w)/uy, read: ([letter]) => verbatim(`${letter} sharp`) },
  // After a name a road, elsewhere somebody's title.
  {
    pattern:
      /(?<=\p{Lu}\p{Ll}{2,}\s)(?<!\b(?:The|This|Our|Your|His|Her|Dear|Yes|Thanks|Hello)\s)Dr(?:\.(?=\s*[^\s"')])|(?=\.))(?!\s+\p{Lu}\p{Ll})/uy,
    read: () => verbatim("Drive"),
  },
  { pattern: /(?<!\p{L})Dr(?:\.(?=\s*[^\s"')])|(?=\.))/uy, read: () => verbatim("Doctor") },
  // In an address a full stop may be left out.
  {
    pattern:
      /(?<=\b\d+[a-z]?\s(?:\p{Lu}[\p{Ll}']+\s){1,2}|\d(?:st|nd|rd|th)\s)(St|Ave|Rd|Blvd|Ln|Dr|Hwy)(?=,|$|\n|\s\p{Lu})/uy,
    read: ([road]) => verbatim(ROADS[road!]!),
  },
  // AT&T, R&D.
  {
    pattern: /(?<![\p{L}\d&])(\p{Lu}{1,4})&(\p{Lu}{1,3})(?![\p{L}\d&])/uy,
    read: ([first, last]) => verbatim(`${[...first!].join(" ")} and ${[...last!].join(" ")}`),
  },
  // A grade; with a plus the sign is read.
  {
    pattern:
      /(?<=(?:^|[\s("]))([A-F])-(?=\s(?:student|grade|average|in|on|for)\b|[,;)]|\.(?:\s|$))/uy,
    read: ([grade]) => verbatim(`${grade} minus`),
  },
  // The full stop of a unit within a sentence: 16 oz. of it.
  {
    pattern:
      /(?<=(?:\d\s?|\d\/)(?:lbs?|oz|gal|qt|pt|yrs?|mos?|wks?|hrs?|mins?|secs?|ft|yds?|mi|tsp|tbsp))\.(?=\s+[\p{Ll}\d=+(&]|[;,])/uy,
    read: () => verbatim(""),
  },
  { pattern: /&&/uy, read: () => verbatim("and") },
  {
    pattern: /(?<=(?<![\p{L}\d])\p{L}) \/ (?=\p{L}(?![\p{L}\d]))/uy,
    read: () => verbatim(" divided by "),
  },
  { pattern: /(?<!\p{L})e\.\s?g\.,?/uy, read: () => verbatim("for example,") },
  { pattern: /(?<!\p{L})i\.\s?e\.,?/uy, read: () => verbatim("that is,") },
  // Before a name a saint, after one a street.
  {
    pattern:
      /(?<=(?:\p{Lu}\p{Ll}+|\d(?:st|nd|rd|th))\s)St(?:\.(?=\s*[^\s"')])|(?=\.))(?!\s+(?:\p{Lu}\p{Ll}+'s|\p{Lu}\p{Ll}+$))/uy,
    read: (_, { after }) => verbatim(/^\s+\p{Lu}\p{Ll}/u.test(after) ? "Saint" : "Street"),
  },
  { pattern: /(?<!\p{L})St\.(?=\s+\p{Lu})/uy, read: () => verbatim("Saint") },
  // Not an answer.
  {
    pattern:
      /(?:(?<=\d(?:,| and| or) )|(?<!\b(?:said|says?|answer(?:ed|s)?|is|was|and|or) ))(?<!\p{L})no\.(?=\s*\d)/uy,
    read: () => verbatim("number"),
  },
  { pattern: /(?<![\p{L}\d])vs(?![\p{L}\d.])/uy, read: () => verbatim("versus") },
  { pattern: /(?<!\p{L})w\/(?=\s?\p{L})/uy, read: () => verbatim("with ") },
  // U.S. and b.i.d., letter by letter.
  {
    pattern: /(?<![\p{L}\d.])(\p{L}(?:\.\p{L})+)(?:\.(?=\s*[^\s"')\]])|(?=\.)|(?![\p{L}\d]))/uy,
    read: ([letters]) => verbatim(letters!.replaceAll(".", " ").toUpperCase()),
  },
  // A link to a name, and a topic.
  { pattern: /(?<=\w)@(?=\w)/uy, read: () => verbatim(" at ") },
  { pattern: /(?<!\S)@(?=\w)/uy, read: () => verbatim("at ") },
  { pattern: /(?<!\S)#(?=\p{L})/uy, read: () => verbatim("hashtag ") },
  { pattern: /(?<!\S)\.(?=\p{L})/uy, read: () => verbatim("dot ") },
  // Comparisons and arrows.
  { pattern: /\s*(?:[-=]>)\s*(?=\w)/uy, read: () => verbatim(" to ") },
  { pattern: /\s*(?:<=)\s*(?=[\w(-])/uy, read: () => verbatim(" less than or equal to ") },
  { pattern: /\s*(?:>=)\s*(?=[\w(-])/uy, read: () => verbatim(" greater than or equal to ") },
  { pattern: /\s*!=\s*(?=[\w("'-])/uy, read: () => verbatim(" is not equal to ") },
  { pattern: /\s*={2,3}\s*(?=[\w("'-])/uy, read: () => verbatim(" equals ") },
  { pattern: /(?<=[\w)|\]])(?:\s+<\s+|<)(?=[\w($.-])/uy, read: () => verbatim(" less than ") },
  { pattern: /(?<=[\w)|\]])(?:\s+>\s+|>)(?=[\w($.-])/uy, read: () => verbatim(" greater than ") },
  { pattern: /(?<!\S)<(?=[$]?\d)/uy, read: () => verbatim("less than ") },
  { pattern: /(?<!\S)>(?=[$]?\d)/uy, read: () => verbatim("more than ") },
  { pattern: /(?<=[\p{L}\d)]\s)-(?=\s\d+(?:\.\d+)?\s?=)/uy, read: () => verbatim("minus") },
  // Between letters of short forms nothing is said.
  { pattern: /(?<=(?<!\p{L})\p{Lu}+)\/(?=\p{Lu}+(?!\p{L}))/uy, read: () => verbatim(" ") },
  { pattern: /(?<=\p{L})\/(?=\p{L})/uy, read: () => verbatim(" or ") },
  { pattern: /(?<=[a-z])--(?=[a-z])/uy, read: () => verbatim(" \u2014 ") },
];

const ENGLISH: Language = {
  load: () => import("n2words/en-US"),
  numbers: { minus: "minus", point: "point" },
  createLexicon: (numbers) => new TableLexicon(ENGLISH_LEXICON, numbers),
  amounts: AMOUNTS,
  dates: { months: new Map(), dayMark: "", order: "month-day" },
  times: {},
  abbreviations: ENGLISH_ABBREVIATIONS,
  signs: `
    ×=times; ÷=divided by; ±=plus or minus; −=minus; ≈=approximately; ≃=approximately;
    ≠=is not equal to; ≤=less than or equal to; ≥=greater than or equal to; ≡=is equivalent to;
    √=square root of; ∞=infinity; ∑=sum of; ∫=integral of; π=pi; →=to; ⇒=implies; ∈=in; @=at;
    &=and; %=percent; +=plus; ==equals; $=dollars; €=euros; £=pounds; ¢=cents; ¥=yen; §=section;
    ¶=paragraph; ©=copyright; ®=registered; ™=trademark; °=degrees; µ=micro; †=dagger`,
  address: `
    .=dot; @=at; /=slash; \\=backslash; :=colon; ~=tilde; -=dash; _=underscore; +=plus;
    ?=question mark; ==equals; &=and; #=hash; %=percent`,
  to: "to",
  versus: "to",
  ordinals: [],
  createRules: ({ numbers, lexicon }) => {
    const tools = { numbers, lexicon, english: new EnglishNumbers(numbers) };
    return {
      first: [
        ...englishTimeRules(tools),
        ...englishTelephoneRules(tools),
        ...englishDateRules(),
        ...englishAmountRules(tools),
      ],
      last: [
        ...englishYearRules(tools),
        ...englishNumberRules(tools),
        ...romanRules(numbers),
        ...WORD_RULES,
      ],
      isFraction,
    };
  },
  sayDate: (date, _, { numbers }) => new EnglishNumbers(numbers).date(date),
  sayYear: (year, { numbers }) => new EnglishNumbers(numbers).year(year),
  sayTime: (time, _, { numbers }) => new EnglishNumbers(numbers).time(time),
  sayFraction: (fraction, _, { numbers }) => new EnglishNumbers(numbers).fraction(fraction),
  // Groups with hyphens between them are said apart.
  sayTelephone: (text, { numbers }) =>
    (/^\d+(?:-\d+)+$/.test(text) ? text.split("-") : [text])
      .map((group) => numbers.digits(group)).join(", "),
};

/** Words by which a text in capitals is told from a list of short forms. */
const COMMON_WORDS = new Set(
  ("A ALL AND ANY ARE AS AT BE BUT BY CAN COME DO DONT FOR FROM GET GO HAS HAVE HE HER HERE HIM HIS HOW I IF IN INTO IS IT " +
    "ITS KEEP LIKE ME MORE MY NEW NO NOT NOW OF OFF ON ONE ONLY OR OUR OUT OVER PLEASE RIGHT SHE SO STOP THAT THE THEIR " +
    "THEM THEN THERE THEY THIS TIME TO UP US WAS WE WERE WHAT WHEN WHERE WHO WHY WILL WITH YES YOU YOUR WARNING")
    .split(" "),
);

/** Whether a text is written in capitals for emphasis. */
function isShouted(text: string): boolean {
  if (/\p{Ll}/u.test(text)) return false;
  const words = text.replaceAll(/['\u2019]/g, "").match(/\p{Lu}+/gu) ?? [];
  const common = new Set(words.filter((word) => COMMON_WORDS.has(word)));
  return words.length >= 3 && common.size >= 2;
}

/** Writes English texts out in words. */
export async function createEnglishNormalizer(): Promise<(text: string) => string> {
  const normalize = await createNormalizer(ENGLISH);
  return (text) => {
    const said = normalize(text);
    return isShouted(text) ? said.replaceAll(/\p{Lu}{2,}/gu, (word) => word.toLowerCase()) : said;
  };
}
