import assert from "node:assert/strict";
import { HearthError } from "../../../../src/base/errors.ts";
import { GrammarCompiler } from "../../../../src/engine/grammar/compiler.ts";
import type { GrammarSpec } from "../../../../src/engine/grammar/grammar.ts";
import {
  compile,
  END,
  feed,
  isAllowed,
  matches,
  schemaSpec,
  SPECIAL,
  TOKENS,
} from "../../../fixtures/text/grammar.ts";
import { Random } from "../random.ts";

const gbnf = (text: string): GrammarSpec => ({ kind: "gbnf", text, param: "grammar" });

Deno.test("a mask allows a token exactly if its bytes are accepted one by one", () => {
  const specs: GrammarSpec[] = [
    { kind: "json_object" },
    schemaSpec({
      type: "object",
      properties: { name: { maxLength: 5 }, x: { enum: [true, "é"] } },
    }),
    { kind: "regex", pattern: "(日本|name|.)*é+", param: "regex" },
    { kind: "regex", pattern: "[^é]*", param: "regex" },
    { kind: "regex", pattern: "[^本]*", param: "regex" },
    gbnf('root ::= item ("," item)*\nitem ::= "{" root "}" | [^{},]{1,3} | root'),
    { kind: "lazy", triggers: [{ text: '{"', then: schemaSpec({ const: 1 }) }] },
    {
      kind: "sequence",
      items: [{ kind: "until", ending: "</think>" }, { kind: "choice", choices: ["name", "true"] }],
    },
  ];
  const random = new Random(3);
  for (const spec of specs) {
    const grammar = compile(spec);
    for (let round = 0; round < 30; round++) {
      const path: number[] = [];
      const matcher = grammar.createMatcher();
      for (let step = 0; step < 40 && !matcher.isFinished; step++) {
        const allowed = Array.from({ length: TOKENS.vocabSize }, (_, id) => id)
          .filter((id) => isAllowed(matcher, id));
        assert.ok(allowed.length > 0, `nothing may follow ${path}`);
        for (let id = 256; id < END; id++) {
          const twin = grammar.createMatcher();
          path.forEach((each) => twin.accept(each));
          const fits = [...TOKENS.getBytes(id)!].every((byte) => feed(twin, byte));
          assert.equal(isAllowed(matcher, id), fits, `token ${id} after ${path}`);
        }
        const next = allowed[random.between(0, allowed.length - 1)]!;
        if (next === END) break;
        matcher.accept(next);
        path.push(next);
      }
    }
  }
});

Deno.test("GBNF grammars may contain left and right recursion, repetition, classes and comments", () => {
  const grammar = compile(gbnf(`
    # sums
    root ::= sum
    sum ::= sum "+" term | term   # to the left
    term ::= [0-9]+ | "(" sum ")" | word{2,3}
    word ::= [^\\x00-\\x7F] | "\\u00e9" |
      "\\"x\\""
  `));
  for (const text of ["1", "1+22+(3+4)", "éé", '"x"日+1', "日本語"]) {
    assert.ok(matches(grammar, text), text);
  }
  for (const text of ["", "1+", "(1", "é", "日本語é", "1 + 2"]) {
    assert.ok(!matches(grammar, text), text);
  }
});

for (
  const [text, wanted] of [
    ["root ::= foo", /no rule called foo/],
    ['foo ::= "a"', /no rule called root/],
    ['root ::= "a', /line 1, column 10 .*not closed/],
    ['root ::= "é" x\nx ::= [z-a]', /line 2, column 8 .*out of order/],
    ['root ::= "😀" y', /line 1, column 14 .*no rule called y/],
    ['root ::= "a" (("b") "c"\n', /line 1, column 14 .*group is not closed/],
    ['root ::= "a"\nroot ::= "b"', /line 2, column 1 .*twice/],
    ['root ::= "a"\n  !x', /line 2, column 3 .*saw "!x"/],
    ['root ::= "a"{5,2}', /line 1, column 13 .*\{5,2\}/],
    ['root ::= "\\xzz"', /line 1, column 11 .*not a code point/],
    ["root ::= (", /not closed/],
    ['start: "a"', /want a rule/],
    ['root ::= "a"{3,2}', /bounds in order/],
    ['root ::= root "a"', /no text can match/],
    ['root ::= "a"\nroot ::= "b"', /twice/],
  ] as const
) {
  Deno.test(`GBNF is refused: ${text}`, () => {
    assert.throws(
      () => compile(gbnf(text)),
      (error) =>
        error instanceof HearthError && wanted.test(error.message) && error.param === "grammar",
    );
  });
}

Deno.test("any text may come before an ending, whether the ending is a token with text or a special token", () => {
  for (const [ending, ...written] of [["</think>", "</think>"], ["<|call|>", SPECIAL]] as const) {
    const grammar = compile({
      kind: "sequence",
      items: [{ kind: "until", ending }, schemaSpec({ type: "integer" })],
    });
    assert.ok(matches(grammar, 'any "text" </thin', ...written, "12"));
    assert.ok(!matches(grammar, "12"));
    assert.ok(!matches(grammar, ...written, "x"));
  }
});

Deno.test("a lazy grammar allows any text until a trigger, constrains what follows it, and then allows any text again", () => {
  const grammar = compile({
    kind: "lazy",
    triggers: [
      {
        text: "<call>",
        then: {
          kind: "sequence",
          items: [schemaSpec({ enum: [1, 2] }), { kind: "text", text: "</call>" }],
        },
      },
      { text: "<|call|>", then: { kind: "text", text: "now" } },
    ],
  });
  for (
    const parts of [
      [""],
      ["free <cal text"],
      ["a <call>1</call> b <call>2</call>"],
      ["x", SPECIAL, "now"],
      ["<<call>1</call>", SPECIAL, "now and then"],
    ]
  ) assert.ok(matches(grammar, ...parts), String(parts));
  for (const parts of [["<call>3"], ["<call>"], ["<call>1</call"], [SPECIAL, "then"]]) {
    assert.ok(!matches(grammar, ...parts), String(parts));
  }
});

Deno.test("a text in a grammar matches special tokens by name, and a repetition counts them", () => {
  const grammar = compile({
    kind: "repeat",
    item: { kind: "text", text: "<|call|>x" },
    min: 1,
    max: 2,
  });
  assert.ok(matches(grammar, SPECIAL, "x", SPECIAL, "x"));
  assert.ok(!matches(grammar, SPECIAL, "x", SPECIAL, "x", SPECIAL));
  assert.ok(!matches(grammar, "<|call|>x"));
});

Deno.test("choices, listed values and patterns that spell a special token match its text, not the token", () => {
  const texts: readonly (readonly [GrammarSpec, string])[] = [
    [{ kind: "choice", choices: ["<|end|>", "a<|call|>b", "yes"] }, "a<|call|>b"],
    [{ kind: "choice", choices: ["<|end|>", "yes"] }, "<|end|>"],
    [{ kind: "regex", pattern: "<\\|end\\|>|yes", param: "regex" }, "<|end|>"],
    [schemaSpec({ enum: ["<|end|>", "yes"] }), '"<|end|>"'],
    [gbnf('root ::= "<|end|>" | "yes"'), "<|end|>"],
  ];
  for (const [spec, text] of texts) {
    const grammar = compile(spec);
    assert.ok(matches(grammar, text), text);
    for (const token of [END, SPECIAL]) {
      assert.ok(!isAllowed(grammar.createMatcher(), token), `${text}: token ${token}`);
    }
  }
});

Deno.test("a matcher is finished if nothing may follow, and may end earlier if more text is optional", () => {
  const matcher = compile(schemaSpec({ type: "object", additionalProperties: false }))
    .createMatcher();
  assert.ok(!matcher.isFinished && !isAllowed(matcher, END));
  assert.ok(feed(matcher, "{}"));
  assert.ok(matcher.isFinished && isAllowed(matcher, END));
  const number = compile(schemaSpec({ type: "integer" })).createMatcher();
  feed(number, "12");
  assert.ok(!number.isFinished && isAllowed(number, END));
});

Deno.test("GrammarCompiler caches its latest grammars, and reads the vocabulary once, at first use", () => {
  let numReads = 0;
  const compiler = new GrammarCompiler(() => {
    numReads++;
    return TOKENS;
  });
  assert.equal(numReads, 0);
  const first = compiler.compile(schemaSpec({ type: "null" }));
  assert.equal(compiler.compile(schemaSpec({ type: "null" })), first);
  for (let i = 0; i < 100; i++) compiler.compile(schemaSpec({ const: i }));
  assert.notEqual(compiler.compile(schemaSpec({ type: "null" })), first);
  assert.equal(numReads, 1);
});
