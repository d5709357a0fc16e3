/**
 * The formats of JSON schema, as regular expressions: every text that matches has the format.
 *
 * @module
 */

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
const PART_CHAR = String.raw`(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})`;
const PATH_CHAR = `(?:${PART_CHAR}|:)`;
const PATH = `(?:/${PATH_CHAR}*)*`;
const TAIL = String.raw`(?:\?(?:${PATH_CHAR}|[/?])*)?(?:#(?:${PATH_CHAR}|[/?])*)?`;
const HOST = String.raw`${HOSTNAME}(?::\d{1,4})?`;
const URI = String
  .raw`(?:[a-z][a-z0-9+.-]*://${HOST}${PATH}|(?:mailto|urn|tel):${PATH_CHAR}+)${TAIL}`;
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
export const NUMBER_FORMATS: Readonly<
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
 * Returns the pattern of a string format; `undefined` for other formats, which are only annotations.
 *
 * @see https://json-schema.org/draft/2020-12/json-schema-validation#section-7.2.1
 */
export function patternOfFormat(format: string): string | undefined {
  return Object.hasOwn(PATTERNS, format) ? `^(?:${PATTERNS[format]})$` : undefined;
}
