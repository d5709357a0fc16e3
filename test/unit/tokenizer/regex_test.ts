import assert from "node:assert/strict";
import { Tokenizer } from "../../../src/tokenizer/tokenizer.ts";
import { RegexPattern } from "../../../src/tokenizer/config_reader.ts";
import { Random } from "../engine/random.ts";

/** Expressions that V8 also supports. */
const PATTERNS = [
  "(?:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  "(a|ab)(c|bcd)*",
  "(a+)+b|a",
  "(a*)*b|.",
  "a{2,3}?b?",
  "(?<=a|ab)b+",
  "(?<!a)b",
  "(?=a+b)a|b",
  "[^a-b ]+|[ab]{2}",
  "(?:a|b|ab)*?c",
  "\\p{Lu}\\p{Ll}*|😀+",
  "(?:)",
  "a(?!b)|b(?=a)",
];

Deno.test("RegexPattern.findAll() finds the same matches as V8, in short and long texts", () => {
  const random = new Random(3);
  const chars = [..."aaabbbcc'Ts1 \n😀É"];
  for (const pattern of PATTERNS) {
    const ours = new RegexPattern(pattern);
    const theirs = new RegExp(pattern, "gu");
    for (let i = 0; i < 300; i++) {
      const length = i === 0 ? 3000 : random.between(0, 30);
      const text = Array.from({ length }, () => random.pick(chars)).join("");
      const found = [...text.matchAll(theirs)].flatMap(({ 0: { length }, index }) =>
        length === 0 ? [] : [index, index + length]
      );
      const all = ours.findAll(text);
      const filled = all.filter((_, at) => all[at - at % 2] !== all[at - at % 2 + 1]);
      assert.deepEqual(filled, found, `${pattern} in ${JSON.stringify(text)}`);
    }
  }
});

/** Expressions that take exponential time in a backtracking engine. */
const EXPLOSIVE = [
  "(a+)+$",
  "(a|a)*$",
  "(a|aa)+$",
  "(\\w+\\s?)*$",
  "(a*)*b",
  "(.*)*(.*)*(.*)*z",
  "(a?){30}a{30}b",
  "(?=(a+)+b)a",
  "(a+)+b|a",
];

Deno.test("RegexPattern.findAll() either ends or throws a BudgetError for expressions that backtrack exponentially", () => {
  for (const pattern of EXPLOSIVE) {
    const text = "a".repeat(5_000) + "!";

    try {
      new RegexPattern(pattern).findAll(text);
    } catch (error) {
      assert.equal((error as Error).name, "BudgetError");
    }
  }
});

Deno.test("Tokenizer.encode() refuses a text on which a regular expression would take too long", () => {
  const tokenizer = new Tokenizer({
    pre_tokenizer: {
      type: "Split",
      pattern: { Regex: "(?>a+)b|(?=.*!)a" },
      behavior: "Isolated",
    },
    model: { type: "WordLevel", vocab: { a: 0 }, unk_token: "a" },
  });
  assert.deepEqual(tokenizer.encode("aa!"), [0, 0, 0]);
  assert.throws(() => tokenizer.encode("a".repeat(100_000) + "!"), {
    kind: "invalid_value",
    message:
      /tokenizer.json takes too long on this text \(a regular expression takes too many steps\)/,
  });
});

Deno.test("Tokenizer limits replacements, added tokens and long pieces", () => {
  const model = { type: "WordLevel", vocab: { a: 0 }, unk_token: "a" };
  const doubling = [{ String: "a" }, { Regex: "a" }, { String: "" }].map((pattern) =>
    new Array(60).fill({ type: "Replace", pattern, content: "aa" })
  );
  const long = (length: number) => "a".repeat(length);
  const added = Array.from(
    { length: 500 },
    (_, i) => ({ id: i + 1, content: `${long(2000 + i)}z` }),
  );
  const pieces = [["<unk>", 0], ["a", -1], [long(1000), -2]];
  for (
    const [json, text, reason] of [
      ...doubling.map((normalizers) =>
        [{ model, normalizer: { type: "Sequence", normalizers } }, "a", /too long/] as const
      ),
      [{ model, added_tokens: added }, long(30_000), /too many added tokens begin alike/],
      [
        { model: { type: "Unigram", unk_id: 0, vocab: pieces } },
        long(30_000),
        /too many long tokens match/,
      ],
    ] as const
  ) {
    const tokenizer = new Tokenizer(json);
    assert.throws(() => tokenizer.encode(text), { kind: "invalid_value", message: reason });
  }
  const strip = { type: "Strip", content: "", start: 1e12, stop: 1e12 };
  assert.equal(new Tokenizer({ model, decoder: strip }).decode([0]), "a");
  const decoder = { type: "Sequence", decoders: doubling[0] };
  assert.throws(() => new Tokenizer({ model, decoder }).decode([0]), { kind: "invalid_value" });
});

Deno.test("RegexPattern names unsupported syntax and its position", () => {
  for (
    const [pattern, message] of [
      ["(a", /a group that is not closed at character 2 of \(a/],
      ["[a", /a \[ that is not closed/],
      ["(a)\\1", /\\1, which is not supported/],
      ["\\p{Nonsense}", /an unknown property \\p\{Nonsense\}/],
      ["*a", /nothing to repeat/],
      ["(?<=a*)b", /a lookbehind whose length has no limit/],
      ["((ab){1000}){1000}", /too long/],
    ] as const
  ) {
    assert.throws(() => new RegexPattern(pattern), { name: "SyntaxError", message });
  }
});

Deno.test("Tokenizer names the position of damage in tokenizer.json", () => {
  const model = { type: "WordLevel", vocab: { a: 0 }, unk_token: "a" };
  const split = { type: "Split", pattern: { Regex: "(" }, behavior: "Isolated" };
  for (
    const [json, message] of [
      [{}, "tokenizer.json: model: want an object, saw nothing."],
      [
        { model: { ...model, vocab: { a: -1 } } },
        /model\.vocab\["a"\]: want a whole number from 0 to 16777216, saw -1/,
      ],
      [{ model, normalizer: { type: "Upper" } }, /normalizer\.type: .* saw "Upper"/],
      [
        { model, pre_tokenizer: { type: "Sequence", pretokenizers: [split] } },
        /pre_tokenizer\.pretokenizers\[0\]\.pattern\.Regex: saw a group that is not closed/,
      ],
      [
        { model, normalizer: nest(99, { type: "NFC" }) },
        /normalizers\[0\]: want at most 32 nested parts/,
      ],
      [
        {
          model,
          pre_tokenizer: {
            ...split,
            pattern: { Regex: "(".repeat(20_000) + "a" + ")".repeat(20_000) },
          },
        },
        /Regex: the expression is nested too deeply/,
      ],
      [
        { model: { type: "BPE", vocab: { a: 0 }, merges: ["a b"] } },
        /model\.merges\[0\]: "a b" merges no two tokens/,
      ],
    ] as const
  ) {
    assert.throws(() => new Tokenizer(json), { name: "StartupError", message });
  }
});

function nest(depth: number, normalizer: object): object {
  return depth === 0
    ? normalizer
    : nest(depth - 1, { type: "Sequence", normalizers: [normalizer] });
}
