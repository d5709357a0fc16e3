/**
 * Recognizes telephone numbers, scores, versions, years and plain numbers.
 *
 * @module
 */
import { type DecimalSign, numberPattern } from "./numbers.ts";
import { type Fields, type Rule, rule, words, wordsIf } from "./token.ts";

const MINUS = String.raw`(?<minus>(?<=^|[\s(\[=:<>\u2264\u2265\u2248~|,;^])[-\u2212])`;

const telephone = rule("telephone");
const hasSixDigits = ({ text }: Fields) => text!.replaceAll(/\D/g, "").length >= 6;

/** Figures that are read one by one. */
export const TELEPHONE_RULES: readonly Rule[] = [
  // With the code of a country.
  telephone`(?<![\p{L}\d])\+\d[\d ().\u2011\/-]{6,20}\d(?![\d-])`,
  // With a nought before it, in groups.
  rule(
    "telephone",
    {},
    hasSixDigits,
  )`(?<![\p{L}\d.,:\/-])\(?0\d{1,5}\)?(?:[ \/-]\d{2,8}){1,5}(?![\d:-]|[.,\/]\d)`,
  // A card's number.
  telephone`(?<![\p{L}\d.,-])\d{4}(?<hyphen>[ -])\d{4}(?:\k<hyphen>\d{4}){2}(?![\d-])`,
  // Numbers of books, accounts and the like: three groups or more.
  rule("telephone", { mark: "groups" })`(?<![\p{L}\d.$-])\d+(?:-\d+){2,}(?![\p{L}\d-])`,
  // A nought before a number.
  telephone`(?<![\d.,:])0\d+(?![\d:]|[.,]\d)`,
];

/** A score: `2:1`. */
export const scoreRule = (versus: string): Rule =>
  words`{number} ${versus} {last} <- (?<![\d:.])(?<number>\d{1,4}(?:\.\d+)?):(?<last>\d{1,4}(?:\.\d+)?)(?![\d:]|[.,]\d)`;

/** A number that is hardly ever anything but a year. */
export const YEAR_RULE: Rule = rule(
  "date",
)`(?<![\p{L}\d.,:\/$+-])(?<year>(?:1[1-9]|20)\d\d)(?![\d:\/]|[.,]\d)`;

/** Three or more numbers with points between them: versions, sections. Groups of a number look alike. */
export const VERSION_RULE: Rule = wordsIf(({ text }, { after }) =>
  !/^[1-9]\d{0,2}(?:\.\d{3}){2,}$/.test(text!) && !/^,\d/.test(after)
)`{text:version} <- (?<![\p{L}\d]|\d[.,])\d+(?:\.\d+){2,}(?!\d)`;

/** A number that no other rule reads. */
export const cardinalRule = (decimalSign: DecimalSign): Rule =>
  rule("cardinal")`(?:${MINUS}(?=[.\d]))?(?<number>${numberPattern(decimalSign)})`;
