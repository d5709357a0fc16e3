/**
 * The strings, formats and numbers of schemas, as expressions.
 *
 * @module
 */
import { ALL_CODE_POINTS, type CodePoints, encodeSet } from "./code_points.ts";
import { ANYTHING, type Expressions } from "./expressions.ts";
import { GrammarError, ImpossibleError } from "./grammar.ts";
import { encodeJsonSet, inside, matchAnyJsonChar, matchAnyText, quoted } from "./json_text.ts";
import {
  buildNumber,
  isEnforceableDivisor,
  MAX_DIVISOR,
  MAX_DIVISOR_DIGITS,
  type NumberBounds,
} from "./numbers.ts";
import { readPattern } from "./pattern.ts";
import type { SchemaNode } from "./schema_document.ts";
import { listValues } from "./schema_facts.ts";

/** How strings are spelled. */
interface Spelling {
  /** Matches one character of a set, in a single spelling. */
  encode(points: CodePoints): number;
  /** Matches any character, in any spelling. */
  readonly anyChar: number;
  /** Spells a text, in a single spelling and without quotation marks. */
  inside(text: string): string;
  /** Matches whole strings, given an expression for their contents. */
  whole(inside: number): number;
}

/** Spells strings as JSON. */
function makeJsonSpelling(expressions: Expressions): Spelling {
  return {
    encode: (points) => encodeJsonSet(expressions, points),
    anyChar: matchAnyJsonChar(expressions),
    inside,
    whole: (inner) => quoted(expressions, inner),
  };
}

/** Spells strings as plain text. @param without must not occur in any of them. */
export function makePlainSpelling(expressions: Expressions, without: string): Spelling {
  const encode = (points: CodePoints) => encodeSet(expressions, points);
  const contains = expressions.concat([ANYTHING, expressions.text(without), ANYTHING]);
  return {
    encode,
    anyChar: encode(ALL_CODE_POINTS),
    inside: (text) => text,
    whole: (inner) => expressions.and([inner, expressions.not(contains)]),
  };
}

/** The strings and numbers of one grammar. Each pattern is compiled once. */
export class SchemaScalars {
  readonly #expressions: Expressions;
  readonly #spelling: Spelling;
  readonly #patterns = new Map<string, number>();
  readonly #canonicalChar: number;

  constructor(expressions: Expressions, spelling = makeJsonSpelling(expressions)) {
    this.#expressions = expressions;
    this.#spelling = spelling;
    this.#canonicalChar = spelling.encode(ALL_CODE_POINTS);
  }

  /** Matches the contents of strings that all nodes allow, each character in a single spelling. */
  canonicalInside(nodes: readonly SchemaNode[]): number {
    const { min, max } = findLengths(nodes);
    const chars = this.#expressions.repeat(this.#canonicalChar, min, Math.max(min, max));
    return this.#expressions.and([chars, ...this.#compilePatterns(nodes)]);
  }

  /** Matches whole strings that all nodes allow, with quotation marks if they are JSON. */
  string(nodes: readonly SchemaNode[]): number {
    const { min, max } = findLengths(nodes);
    const patterns = this.#compilePatterns(nodes);
    const char = patterns.length > 0 ? this.#canonicalChar : this.#spelling.anyChar;
    const chars = this.#expressions.repeat(char, min, Math.max(min, max));
    return this.#spelling.whole(this.#expressions.and([chars, ...patterns]));
  }

  /** Matches the given texts that all nodes allow, with quotation marks if they are JSON. */
  listed(texts: readonly string[], nodes: readonly SchemaNode[]): number {
    const allowed = this.canonicalInside(nodes);
    const found = texts.map((text) => this.#spelling.inside(text))
      .filter((text) => this.#expressions.matches(allowed, text));
    return this.#spelling.whole(matchAnyText(this.#expressions, found));
  }

  /** Matches the contents of strings in which a pattern is found. */
  pattern(pattern: string, param: string): number {
    let expression = this.#patterns.get(pattern);
    if (expression === undefined) {
      expression = at(param, () =>
        readPattern(pattern, {
          expressions: this.#expressions,
          encode: (points) => this.#spelling.encode(points),
          isSearch: true,
        }));
      this.#patterns.set(pattern, expression);
    }
    return expression;
  }

  number(nodes: readonly SchemaNode[], isInteger: boolean): number {
    return buildNumber(this.#expressions, findBounds(nodes, isInteger));
  }

  #compilePatterns(nodes: readonly SchemaNode[]): number[] {
    const patterns = listValues<string>(nodes, "pattern").map(({ value, param }) =>
      this.pattern(value, param)
    );
    const formats = listValues<string>(nodes, "format").flatMap(({ value, param }) => {
      const pattern = findFormatPattern(value);
      return pattern === undefined ? [] : [this.pattern(pattern, param)];
    });
    return [...patterns, ...formats].filter((each) => each !== ANYTHING);
  }
}

function findLengths(nodes: readonly SchemaNode[]): { min: number; max: number } {
  const mins = listValues<number>(nodes, "minLength");
  const maxes = listValues<number>(nodes, "maxLength");
  const min = Math.max(0, ...mins.map(({ value }) => value));
  const max = Math.min(Infinity, ...maxes.map(({ value }) => value));
  if (min > max) {
    throw new ImpossibleError(
      `no string has at least ${min} and at most ${max} characters`,
      maxes[0]!.param,
    );
  }
  return { min, max };
}

/** Finds the bounds of numbers. `exclusiveMinimum: true` together with `minimum` is the notation of draft 4. */
function findBounds(nodes: readonly SchemaNode[], isWhole: boolean): NumberBounds {
  let isInteger = isWhole;
  let min: NumberBounds["min"];
  let max: NumberBounds["max"];
  const raise = (value: number, isExclusive: boolean) => {
    if (min === undefined || value > min.value || (value === min.value && isExclusive)) {
      min = { value, isExclusive };
    }
  };
  const lower = (value: number, isExclusive: boolean) => {
    if (max === undefined || value < max.value || (value === max.value && isExclusive)) {
      max = { value, isExclusive };
    }
  };
  const multipleOf: number[] = [];
  for (const { keywords } of nodes) {
    if (keywords === false) continue;
    const { minimum, maximum, exclusiveMinimum, exclusiveMaximum, format } = keywords;
    if (typeof minimum === "number") raise(minimum, exclusiveMinimum === true);
    if (typeof maximum === "number") lower(maximum, exclusiveMaximum === true);
    if (typeof exclusiveMinimum === "number") raise(exclusiveMinimum, true);
    if (typeof exclusiveMaximum === "number") lower(exclusiveMaximum, true);
    const limits = typeof format === "string" && Object.hasOwn(NUMBER_FORMATS, format)
      ? NUMBER_FORMATS[format]
      : undefined;
    if (limits?.min !== undefined) raise(limits.min, false);
    if (limits?.max !== undefined) lower(limits.max, false);
    if (limits !== undefined && /int/.test(format as string)) isInteger = true;
  }
  for (const { value, param } of listValues<number>(nodes, "multipleOf")) {
    if (!isEnforceableDivisor(value)) {
      throw new GrammarError(
        `multipleOf can be enforced only with at most ${MAX_DIVISOR_DIGITS} digits after the decimal point, ` +
          `and a value of at most ${MAX_DIVISOR} without the point; saw ${value}`,
        param,
      );
    }
    isInteger ||= Number.isInteger(value);
    if (value !== 1) multipleOf.push(value);
  }
  return { isInteger, min, max, multipleOf };
}

/** Runs a parser of part of the request, and adds the part's path to its errors. */
export function at<T>(param: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof GrammarError) || error.param !== undefined) throw error;
    throw new GrammarError(error.message, param);
  }
}

const DATE = String.raw`(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|` +
  String.raw`(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))|` +
  String.raw`(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`;
const TIME = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?` +
  String.raw`(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`;
// As in RFC 3339: no unit is left out between two others.
const CLOCK = String.raw`T(?:\d{1,6}H(?:\d{1,6}M(?:\d{1,6}S)?)?|\d{1,6}M(?:\d{1,6}S)?|\d{1,6}S)`;
const CALENDAR = String.raw`(?:\d{1,6}Y(?:\d{1,6}M(?:\d{1,6}D)?)?|\d{1,6}M(?:\d{1,6}D)?|\d{1,6}D)`;
const DURATION = String.raw`P(?:\d{1,6}W|${CALENDAR}(?:${CLOCK})?|${CLOCK})`;
const OCTET = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const IPV4 = String.raw`${OCTET}(?:\.${OCTET}){3}`;
const LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const HOSTNAME = String.raw`${LABEL}(?:\.${LABEL}){0,3}`;
const ATOM = String.raw`[a-z0-9!#$%&'*+/=?^_\x60{|}~-]+`;
const EMAIL = String.raw`${ATOM}(?:\.${ATOM})*@(?:${LABEL}\.)+${LABEL}`;
const WORD = "[0-9a-fA-F]{1,4}";
const IPV6 = [
  `(?:${WORD}:){7}${WORD}`,
  ...Array.from({ length: 7 }, (_, before) => {
    const left = before === 0 ? "" : `${WORD}(?::${WORD}){${before - 1}}`;
    const most = 6 - before;
    return `${left}::${most === 0 ? "" : `(?:${WORD}(?::${WORD}){0,${most - 1}})?`}`;
  }),
].join("|");
const USER_CHAR = String.raw`(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})`;
const PART_CHAR = `(?:${USER_CHAR}|@)`;
const PATH_CHAR = `(?:${PART_CHAR}|:)`;
const PATH = `(?:/${PATH_CHAR}*)*`;
const TAIL = String.raw`(?:\?(?:${PATH_CHAR}|[/?])*)?(?:#(?:${PATH_CHAR}|[/?])*)?`;
const PORT = String.raw`(?:\d{1,4}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])`;
const HOST = String.raw`(?:${USER_CHAR}+(?::${USER_CHAR}*)?@)?` +
  String.raw`(?:${LABEL}(?:\.${LABEL})*|\[(?:${IPV6})\])(?::${PORT})?`;
const URI = String.raw`(?:[a-z][a-z0-9+.-]*://${HOST}${PATH}|file:///${PATH_CHAR}*${PATH}|` +
  `(?:mailto|urn|tel):${PATH_CHAR}+)${TAIL}`;
// Two slashes begin a host. A colon in the first segment of a relative path would end a scheme.
const URI_REFERENCE = `(?:${URI}|//${HOST}${PATH}${TAIL}|/(?:${PATH_CHAR}+${PATH})?${TAIL}|` +
  `${PART_CHAR}+${PATH}${TAIL})`;

const PATTERNS: Readonly<Record<string, string>> = {
  "date-time": `${DATE}T${TIME}`,
  date: DATE,
  time: TIME,
  duration: DURATION,
  email: EMAIL,
  "idn-email": EMAIL,
  hostname: HOSTNAME,
  "idn-hostname": HOSTNAME,
  ipv4: IPV4,
  ipv6: IPV6,
  uri: URI,
  url: URI,
  iri: URI,
  "uri-reference": URI_REFERENCE,
  uuid: "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
  byte: "(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",
};
/** Formats of numbers, with their ranges. */
const NUMBER_FORMATS: Readonly<
  Record<string, { readonly min?: number; readonly max?: number }>
> = {
  int32: { min: -(2 ** 31), max: 2 ** 31 - 1 },
  int64: {},
  uint32: { min: 0, max: 2 ** 32 - 1 },
  uint64: { min: 0 },
  float: { min: -3.4e38, max: 3.4e38 },
  double: {},
};

/** Formats of strings that are enforced. */
export const STRING_FORMATS: readonly string[] = Object.keys(PATTERNS);

/**
 * Finds the pattern of a string format; `undefined` for other formats, which are only annotations.
 *
 * @see https://json-schema.org/draft/2020-12/json-schema-validation#section-7.2.1
 */
function findFormatPattern(format: string): string | undefined {
  return Object.hasOwn(PATTERNS, format) ? `^(?:${PATTERNS[format]})$` : undefined;
}
