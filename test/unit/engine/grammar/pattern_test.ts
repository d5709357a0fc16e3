import assert from "node:assert/strict";
import { encodeSet } from "../../../../src/engine/grammar/code_points.ts";
import { Expressions } from "../../../../src/engine/grammar/expressions.ts";
import { GrammarError } from "../../../../src/engine/grammar/grammar.ts";
import { readPattern } from "../../../../src/engine/grammar/pattern.ts";
import { Random } from "../random.ts";

const PATTERNS = [
  "a+b",
  "^(?=.*[A-Z])(?=.*\\d).{3,6}$",
  "(?!x)y|^z",
  "^[^a-c]{2}$",
  "\\p{L}+$",
  "^(a|b)*a(a|b){6}$",
  "é|ü",
  "^a|b$",
  "(^a|b)c",
  "[\\u{1F600}-\\u{1F64F}]",
  "^$",
  "a{2,}?$",
  "^(?:foo|bar)(?!baz)",
  "^(?<year>\\d{1,3})-?\\w\\s?$",
  "[\\d\\-x]{2}|\\u00e9\\x41",
  "(?:a|b(?:x|y)*){2}",
  "^(?=a)?x",
  "^(?!foo)*[a-z]{3}$",
  "(?=b)+ba",
  "^(?:(?!foo).)*$",
  "^((?!b)[a-z]){2,}$",
  "^(?:a(?!b)|x)?y",
  "^(?:(?=a)\\w){1,3}$",
  "(?=.*1)^a|^b",
  "(?!^a)(?!^$)^.",
  "^(?!^foo$)\\w+$",
  "^(?!.*-$)(?!-)[a-z-]+$",
  "^(?:(?!x)a|b)c?$",
  "^(?!\\.)(?!.*\\.\\.)[a-z.]+$",
];
const PIECES = [
  "a",
  "b",
  "x",
  "y",
  "z",
  "A",
  "É",
  "1",
  "é",
  "c",
  "-",
  "😀",
  "foo",
  "bar",
  "baz",
  " ",
  "\n",
];

/** Patterns with syntax that ECMA-262 lacks, and the equivalent pattern and flags in ECMA-262. */
const OTHERS: readonly (readonly [pattern: string, same: string, flags: string])[] = [
  ["(?i)FOO|^É", "FOO|^É", "iu"],
  ["^(?i:b)|x$", "^[bB]|x$", "u"],
  ["(?i)[^a-c]$", "[^a-c]$", "iu"],
  ["(?i)^\\u00c9|[x-z]{3}$", "^\\u00c9|[x-z]{3}$", "iu"],
  ["^(a(?i)b|X)|z", "^(a[bB]|[xX])|z", "u"],
  ["(?s)^a.", "^a.", "su"],
  ["(?P<y>\\d{1,2})(?P<rest>x)", "(?<y>\\d{1,2})(?<rest>x)", "u"],
  ["\\A(?:a|b)+\\Z", "^(?:a|b)+$", "u"],
  ["\\Ab\\z", "^b$", "u"],
];

function read(pattern: string, isSearch = true) {
  const expressions = new Expressions();
  const encode = (points: Parameters<typeof encodeSet>[1]) => encodeSet(expressions, points);
  const expression = readPattern(pattern, { expressions, encode, isSearch });
  return (text: string) => expressions.matches(expression, text);
}

const ALL = [...PATTERNS.map((pattern) => [pattern, pattern, "u"] as const), ...OTHERS];
for (const [pattern, same, flags] of ALL) {
  Deno.test(`readPattern() matches the same as RegExp: ${pattern}`, () => {
    const random = new Random(pattern.length);
    // A quantifier may follow a lookahead only without the flag u. These patterns match no half of a surrogate pair.
    const isQuantified = /\((?:\?=b|\?=a|\?!foo)\)[?*+]/.test(same);
    const regex = new RegExp(same, isQuantified ? "" : flags);
    const matches = read(pattern);
    let numMatching = 0;
    for (let i = 0; i < 2000; i++) {
      // Texts from few different pieces match more often.
      const pieces = Array.from({ length: random.between(1, 4) }, () => random.pick(PIECES));
      const text = Array.from({ length: random.between(0, 8) }, () => random.pick(pieces)).join("");
      const isMatch = regex.test(text);
      assert.equal(matches(text), isMatch, JSON.stringify(text));
      if (isMatch) numMatching++;
    }
    assert.ok(numMatching >= 5 && numMatching <= 1995, `${numMatching} of 2000 match`);
  });
}

Deno.test("readPattern() without isSearch matches only whole texts", () => {
  const matches = read("a|b+", false);
  assert.deepEqual(["a", "bb", "", "ab", "xa"].map(matches), [true, true, false, false, false]);
});

for (
  const pattern of [
    "(a",
    "a)",
    "[z-a]",
    "a{3,2}",
    "*",
    "\\",
    "(?<=a)b",
    "(a)\\1",
    "\\bx",
    "\\p{Nonsense}",
    "a^b",
    "(?:a$)*",
    "^(?:(?!a)b)*c",
    "(?:(?=a)b*)*$",
    "(?:a(?=b)){17}",
    "(?P=y)a",
    "(?x)a",
    "(?>a)b",
    "((a{1,1000}){1,1000}){1,1000}",
    "(".repeat(5000) + ")".repeat(5000),
  ]
) {
  Deno.test(`readPattern() refuses ${pattern.slice(0, 40)}`, () => {
    assert.throws(() => read(pattern), GrammarError);
  });
}
