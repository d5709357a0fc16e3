import assert from "node:assert/strict";
import { Ajv2020 } from "ajv/dist/2020.js";
import { HearthError } from "../../../../src/base/errors.ts";
import { STRING_FORMATS } from "../../../../src/engine/grammar/schema_scalars.ts";
import { z } from "zod";
import { compile, matches, schemaSpec } from "../../../fixtures/text/grammar.ts";
import { BYTES, walkGrammar } from "../../../fixtures/text/grammar_walk.ts";
import { Random } from "../random.ts";

interface Case {
  readonly schema: unknown;
  readonly good: readonly string[];
  readonly bad: readonly string[];
}

const object = (properties: Record<string, unknown>, rest: object = {}) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
  additionalProperties: false,
  ...rest,
});

const CASES: Readonly<Record<string, Case>> = {
  "any value": {
    schema: true,
    good: ["1", "-0.5e+10", '"é\\u00e9\\uD83D\\ude00"', '{"a": [1, {}], "b": null}', "[]"],
    bad: ["", "01", '"\n"', '"\\uD83D"', "{a: 1}", "[1,]", "1e999", "nul"],
  },
  "white space between parts": {
    schema: object({ a: { type: "integer" }, b: { type: "null" } }),
    good: ['{"a":1,"b":null}', '{"a": 1, "b": null}', '{\n  "a": 1,\n  "b": null\n}'],
    bad: ['{  "a": 1, "b": null}', '{"a": 1}', '{"b": null, "a": 1}'],
  },
  "optional members, in the order of the schema": {
    schema: object({ a: { const: 1 }, b: { const: 2 }, c: { const: 3 } }, { required: ["b"] }),
    good: ['{"b": 2}', '{"a": 1, "b": 2}', '{"b": 2, "c": 3}'],
    bad: ["{}", '{"a": 1}', '{"b": 2,}', '{"c": 3, "b": 2}'],
  },
  "keywords of two types without a type": {
    schema: { minimum: 30, properties: { a: { $ref: "#" } }, required: ["a"] },
    good: ["37", '{"a": 37}', '{"a": {"a": 30}}'],
    bad: ["3", '{"a": 3}', "{}", '"x"'],
  },
  "an $anchor within enum or const does not name a schema": {
    schema: {
      $defs: {
        a: { enum: [{ $anchor: "x", type: "null" }] },
        b: { $anchor: "x", type: "string" },
        c: { const: { $anchor: "x", type: "null" } },
        properties: { properties: { enum: { $anchor: "y", const: 1 } } },
      },
      anyOf: [{ $ref: "#x" }, { $ref: "#y" }],
    },
    good: ['"s"', "1"],
    bad: ["null", "2", "{}"],
  },
  "members that the schema does not list": {
    schema: { type: "object", properties: { a: {} }, additionalProperties: { type: "integer" } },
    good: ['{"a": "x", "b": 1, "aa": 2}', '{"b": 1}'],
    bad: ['{"b": "x"}', '{"b": 1, "a": "x"}', '{"\\u0061": 1}'],
  },
  "names by pattern": {
    schema: {
      type: "object",
      patternProperties: { "^n_": { type: "integer" }, "_s$": { maximum: 5 } },
      additionalProperties: { type: "boolean" },
    },
    good: ['{"n_x": 9}', '{"n_s": 5}', '{"a_s": 1.5}', '{"z": true}'],
    bad: ['{"n_s": 6}', '{"n_x": true}', '{"z": 1}'],
  },
  "names that propertyNames allows": {
    schema: { type: "object", propertyNames: { pattern: "^[ab]+$", maxLength: 2 } },
    good: ['{"ab": 1}', "{}"],
    bad: ['{"abb": 1}', '{"c": 1}'],
  },
  "minProperties and maxProperties next to a listed name": {
    schema: {
      type: "object",
      additionalProperties: { const: 1 },
      properties: { x: { const: 0 } },
      minProperties: 1,
      maxProperties: 2,
    },
    good: ['{"x": 0}', '{"a": 1}', '{"x": 0, "a": 1}'],
    bad: ["{}", '{"x": 0, "a": 1, "b": 1}'],
  },
  "recursion": {
    schema: {
      $ref: "#/$defs/node",
      $defs: {
        node: object({
          v: { type: "integer" },
          next: { anyOf: [{ $ref: "#/$defs/node" }, { type: "null" }] },
        }),
      },
    },
    good: ['{"v": 1, "next": {"v": 2, "next": null}}'],
    bad: ['{"v": 1, "next": {"v": 2}}'],
  },
  "references by anchor, pointer and id": {
    schema: {
      $id: "https://x.test/s",
      type: "array",
      prefixItems: [{ $ref: "#word" }, { $ref: "#/$defs/a~1b" }],
      items: { $ref: "https://x.test/n" },
      $defs: {
        w: { $anchor: "word", const: "w" },
        "a/b": { const: "ab" },
        n: { $id: "https://x.test/n", const: 7 },
      },
    },
    good: ['["w", "ab", 7, 7]', "[]"],
    bad: ['["ab"]', '["w", "ab", 8]'],
  },
  "allOf: each of its schemas applies": {
    schema: {
      allOf: [
        { type: "object", properties: { a: { minimum: 2 } }, required: ["a"] },
        { properties: { a: { type: "integer", maximum: 3 }, b: { const: 1 } } },
      ],
      additionalProperties: false,
      properties: { a: true, b: true },
    },
    good: ['{"a": 2}', '{"a": 3, "b": 1}'],
    bad: ['{"a": 4}', '{"a": 2.5}', "{}", '{"a": 2, "c": 1}'],
  },
  "unevaluatedProperties next to allOf": {
    schema: {
      type: "object",
      allOf: [{ properties: { a: { const: 1 } } }],
      properties: { b: { const: 2 } },
      unevaluatedProperties: false,
    },
    good: ['{"b": 2, "a": 1}'],
    bad: ['{"c": 1}'],
  },
  "unevaluatedProperties sees the keywords of its own schema only": {
    schema: {
      allOf: [
        { properties: { x: { properties: { a: {} }, unevaluatedProperties: false } } },
        { properties: { x: { properties: { b: {} } } } },
      ],
    },
    good: ['{"x": {"a": 1}}', '{"x": {}}'],
    bad: ['{"x": {"b": 1}}', '{"x": {"a": 1, "b": 1}}', '{"x": {"c": 1}}'],
  },
  "unevaluatedProperties with choices and references": {
    schema: {
      type: "object",
      $ref: "#/$defs/base",
      anyOf: [
        { properties: { k: { const: 1 }, x: {} }, required: ["k"] },
        { properties: { m: { const: 2 } }, required: ["m"], patternProperties: { "^p_": {} } },
      ],
      unevaluatedProperties: { const: 0 },
      $defs: { base: { properties: { z: { const: "z" } } } },
    },
    good: ['{"z": "z", "k": 1, "x": 5}', '{"m": 2, "p_a": 5}', '{"k": 1, "p_a": 0}'],
    bad: ['{"z": 0, "k": 1}', '{"k": 1, "p_a": 5}', '{"m": 2, "x": 5}'],
  },
  "unevaluatedProperties next to a schema that already evaluates all": {
    schema: {
      allOf: [
        { type: "object", properties: { a: {} }, unevaluatedProperties: { type: "integer" } },
      ],
      unevaluatedProperties: false,
    },
    good: ['{"a": "x", "c": 1}'],
    bad: ['{"c": true}'],
  },
  "minProperties and maxProperties with any names": {
    schema: { type: "object", minProperties: 2, maxProperties: 3 },
    good: ['{"name": 1, "age": 2}', '{"a": 1, "a": 2, "b": 3}'],
    bad: ["{}", '{"a": 1}', '{"a": 1, "a": 2}', '{"a": 1, "a": 2, "a": 3}'],
  },
  "minProperties and maxProperties with a required name": {
    schema: {
      type: "object",
      properties: { a: {}, b: {} },
      required: ["a"],
      additionalProperties: { type: "integer" },
      minProperties: 3,
      maxProperties: 4,
    },
    good: ['{"a": "x", "b": "y", "c": 1}', '{"a": "x", "c": 1, "d": 1}'],
    bad: ['{"a": "x", "b": "y"}', '{"a": "x", "c": 1, "c": 2}', '{"c": 1, "d": 2, "e": 3}'],
  },
  "minProperties with names that differ in the last character or in length, or that are listed": {
    schema: {
      type: "array",
      prefixItems: [
        { type: "object", propertyNames: { pattern: "^n_[0-9]$" }, minProperties: 3 },
        { type: "object", propertyNames: { pattern: "^x*$" }, minProperties: 2 },
        { type: "object", propertyNames: { enum: ["ax", "ay", "bx", "by"] }, minProperties: 4 },
      ],
      items: false,
    },
    good: ['[{"n_1":0,"n_2":0,"n_3":0}, {"x":0,"":0}, {"ax":0,"ay":0,"bx":0,"by":0}]'],
    bad: ['[{"n_1":0,"n_2":0,"n_2":0}]', '[{"n_1":0,"n_2":0,"n_3":0}, {"x":0,"x":0}]'],
  },
  "anyOf and the keywords next to it": {
    schema: { type: "string", maxLength: 3, anyOf: [{ pattern: "^a" }, { minLength: 3 }] },
    good: ['"a"', '"xyz"'],
    bad: ['"xy"', '"abcd"', "1"],
  },
  "oneOf whose options exclude each other": {
    schema: {
      oneOf: [
        object({ kind: { const: "a" }, x: { type: "integer" } }),
        object({ kind: { const: "b" } }),
        { type: "string", pattern: "^x" },
        { type: "string", pattern: "^y" },
        { type: "integer", maximum: 3 },
        { type: "integer", minimum: 4 },
      ],
    },
    good: ['{"kind": "a", "x": 1}', '{"kind": "b"}', '"xa"', "4"],
    bad: ['{"kind": "b", "x": 1}', '"z"', "3.5"],
  },
  "minLength and maxLength count characters": {
    schema: { type: "string", minLength: 2, maxLength: 3 },
    good: ['"ab"', '"日本語"', '"😀😀"', '"\\n\\u0041"', '"\\ud83d\\ude00x"'],
    bad: ['"a"', '"abcd"', '"\\ud83d\\ude00"'],
  },
  "a pattern applies to the string, not to its escapes": {
    schema: { type: "string", pattern: '^["\\\\\\n]{2}$' },
    good: ['"\\"\\\\"', '"\\n\\n"'],
    bad: ['"\\u0022\\\\"', '"ab"', '"\\""'],
  },
  "formats": {
    schema: {
      type: "array",
      items: false,
      prefixItems: [{ type: "string", format: "date-time" }, { type: "string", format: "ipv6" }],
    },
    good: ['["2024-02-29T23:59:59Z", "::1"]', '["1999-12-31T00:00:00.5+02:00", "2001:db8::ff"]'],
    bad: [
      '["2023-02-29T00:00:00Z"]',
      '["2024-01-01T24:00:00Z"]',
      '["2024-01-01T00:00:00Z", "1::2::3"]',
    ],
  },
  "durations": {
    schema: { type: "string", format: "duration" },
    good: ['"P3W"', '"P1Y2M3DT4H5M6S"', '"P2D"', '"PT30M"', '"P1M"', '"PT0S"'],
    bad: ['"P"', '"PT"', '"P1DT"', '"P1"', '"P1W2D"', '"P1Y2D"', '"PT1H2S"', '"1D"'],
  },
  "oneOf with listed values, some of another type": {
    schema: {
      oneOf: [{ type: "boolean", enum: [true, "ab", 100] }, { type: "string" }, { type: "number" }],
    },
    good: ['"ab"', "100", "true"],
    bad: ["false", "null"],
  },
  "URIs": {
    schema: { type: "string", format: "uri" },
    good: [
      '"https://a.b.c.d.example.com:50000/p?q#f"',
      '"postgres://user:p%40ss@db:5432/x"',
      '"http://[::1]:8080/"',
      '"file:///etc/hosts"',
      '"file:///"',
    ],
    bad: ['"https://a:65536/"', '"https://a@b@c"', '"https:///p"', '"a.b"'],
  },
  "URI references": {
    schema: { type: "string", format: "uri-reference" },
    good: ['"//example.com:80/p"', '"/a:b//c?d#e"', '"a/b.png"', '"/"', '"mailto:a@b.c"'],
    bad: ['"//example.com:abc/p"', '"//"', '"///a"', '"a b"', '"1:b"'],
  },
  "listed values that fit the rest": {
    schema: { type: ["string", "integer"], enum: ["a", "bb", 1, 1.5, null, "ü"], maxLength: 1 },
    good: ['"a"', '"ü"', "1"],
    bad: ['"bb"', "1.5", "null"],
  },
  "listed arrays and objects": {
    schema: { enum: [{ a: [1, "x"] }, []] },
    good: ['{"a":[1,"x"]}', '{"a": [1, "x"]}', "[]"],
    bad: ['{"a": [1]}', "{}"],
  },
  "listed objects and arrays that fit the rest": {
    schema: {
      enum: [{ a: 1 }, { a: 2, b: 0 }, { a: "x" }, [1], [1, 1], [1, 2, 3], "s"],
      properties: { a: { type: "integer" } },
      maxProperties: 1,
      maxItems: 2,
      uniqueItems: true,
    },
    good: ['{"a": 1}', "[1]", '"s"'],
    bad: ['{"a": 2, "b": 0}', '{"a": "x"}', "[1, 1]", "[1, 2, 3]"],
  },
  "options that no value can meet": {
    schema: {
      anyOf: [
        { type: "object", required: ["a"], additionalProperties: false },
        { type: "object", properties: { a: false }, required: ["a"] },
        { type: "string", minLength: 3, maxLength: 2 },
        { enum: ["a", "bb", 3], minLength: 2, maxLength: 1 },
        object({ a: { const: 1 }, b: { type: "string", minLength: 2, maxLength: 1 } }, {
          required: ["a"],
        }),
      ],
    },
    good: ["3", '{"a": 1}'],
    bad: ['{"a": 2}', "{}", '"a"', '"bb"', '{"a": 1, "b": "a"}'],
  },
  "oneOf with an option that no value can meet": {
    schema: {
      oneOf: [
        { type: "string", minLength: 3, maxLength: 2 },
        { type: "string", maxLength: 1 },
        { type: "object", required: ["a"], additionalProperties: false },
        object({ b: { const: 1 } }),
      ],
    },
    good: ['"a"', '{"b": 1}'],
    bad: ['"aaa"', "{}"],
  },
  "oneOf of listed objects next to a type": {
    schema: {
      oneOf: [
        { enum: [{ kind: "a" }, { kind: "b" }] },
        object({ kind: { type: "string", pattern: "^c" } }),
      ],
    },
    good: ['{"kind": "a"}', '{"kind": "cc"}'],
    bad: ['{"kind": "d"}'],
  },
  "minItems and maxItems": {
    schema: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 3 },
    good: ["[1, 2]", "[1,2,3]"],
    bad: ["[1]", "[1,2,3,4]", "[]"],
  },
  "tuples of draft 7": {
    schema: {
      type: "array",
      items: [{ const: 1 }, { const: 2 }],
      additionalItems: false,
      minItems: 1,
    },
    good: ["[1]", "[1, 2]"],
    bad: ["[]", "[1,2,3]", "[2]"],
  },
  "exclusive bounds of draft 4": {
    schema: { type: "integer", minimum: 3, exclusiveMinimum: true, maximum: 6 },
    good: ["4", "6"],
    bad: ["3", "7"],
  },
  "nullable": {
    schema: { type: "string", nullable: true, maxLength: 1 },
    good: ["null", '"a"'],
    bad: ["1"],
  },
  "multiples": {
    schema: { type: "integer", multipleOf: 7, minimum: -20, maximum: 30 },
    good: ["0", "-14", "28"],
    bad: ["1", "-21", "35"],
  },
  "multiples of cents": {
    schema: { type: "number", multipleOf: 0.01, minimum: 0, maximum: 20 },
    good: ["0", "19.99", "7.5", "0.07", "20", "1.10"],
    bad: ["0.001", "20.01", "-0.01", "1.125", "1e1", "."],
  },
  "multiples of halves and quarters": {
    schema: { type: "number", allOf: [{ multipleOf: 2.5 }, { multipleOf: 0.25 }] },
    good: ["0", "2.5", "-7.5", "10", "1000002.5"],
    bad: ["0.25", "1", "2.25", "12.4", "2.505"],
  },
  "multiples of a fraction that are whole": {
    schema: { type: "integer", multipleOf: 1.5 },
    good: ["3", "-6", "0"],
    bad: ["1", "1.5", "4"],
  },
  "an unknown format, and the pattern next to it": {
    schema: { type: "string", format: "starts_with", pattern: "^ab" },
    good: ['"ab"', '"abc"'],
    bad: ['"b"', '"xab"'],
  },
  "a member that no value can meet": {
    schema: {
      type: "object",
      properties: { a: { type: "null" }, b: { not: {} }, c: { not: true } },
      required: ["a"],
    },
    good: ['{"a":null}', '{"a":null,"d":1}'],
    bad: ['{"a":null,"b":1}', '{"a":null,"c":{}}'],
  },
  "anyOf with an option that no value can meet": {
    schema: { anyOf: [{ not: {} }, { type: "integer" }], not: false },
    good: ["1"],
    bad: ['"a"', "null"],
  },
  "keywords that are null": {
    schema: {
      type: "object",
      properties: { a: { type: "integer", enum: null, minimum: null, pattern: null, const: 3 } },
      required: null,
      additionalProperties: false,
      patternProperties: null,
      $ref: null,
      not: null,
    },
    good: ["{}", '{"a":3}'],
    bad: ['{"a":2}', '{"b":1}'],
  },
  "properties that are null": {
    schema: { type: "object", properties: null, required: ["x"] },
    good: ['{"x":1}'],
    bad: ["{}"],
  },
};

for (const [name, { schema, good, bad }] of Object.entries(CASES)) {
  Deno.test(`a schema's grammar: ${name}`, () => {
    const grammar = compile(schemaSpec(schema));
    for (const text of good) assert.ok(matches(grammar, text), `refuses ${text}`);
    for (const text of bad) assert.ok(!matches(grammar, text), `accepts ${text}`);
  });
}

const LISTED: readonly unknown[] = [
  ...[null, true, 0, 1, 2.5, -3, "", "a", "ab", "1"],
  ...[[], [1], [1, 1], [1, "a"], ["a", 1], [[1], [1]], [{ a: 1 }, { a: 1 }]],
  ...[{}, { a: 1 }, { a: "x" }, { b: 1 }, { a: 1, b: 1 }, { a: 1, c: 1 }, { x_1: 2 }, { a: {} }],
];

/** Schemas that allow only some of the listed values. */
const RESTRICTIONS: readonly Record<string, unknown>[] = [
  { type: ["object", "integer"] },
  { properties: { a: { type: "integer" } } },
  { required: ["a"] },
  { properties: { a: {} }, additionalProperties: false },
  { properties: { a: {} }, additionalProperties: { type: "string" } },
  { patternProperties: { "^x_": { minimum: 2 } }, additionalProperties: { type: "integer" } },
  { propertyNames: { maxLength: 1 } },
  { minProperties: 1, maxProperties: 1 },
  { minItems: 1, maxItems: 1 },
  { items: { type: "integer" } },
  { prefixItems: [{ type: "integer" }], items: { type: "string" } },
  { prefixItems: [{}], items: false },
  { uniqueItems: true },
  { minimum: 1, maxLength: 1 },
  { pattern: "^a", type: "string" },
  { anyOf: [{ required: ["a"] }, { type: "array", minItems: 2 }] },
  { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
  { allOf: [{ minProperties: 1 }, { properties: { a: { const: 1 } } }] },
  { anyOf: [{ properties: { a: {} } }, { properties: { b: {} } }], unevaluatedProperties: false },
  { properties: { a: { type: "object", anyOf: [{ required: ["b"] }, { maxProperties: 0 }] } } },
  { items: { enum: [1, [1]] } },
  { properties: { a: false } },
];

Deno.test("a schema's grammar accepts the listed values that a validator accepts, and no others", () => {
  for (const schema of RESTRICTIONS) {
    const isValid = new Ajv2020({ strict: false }).compile(schema);
    const grammar = compile(schemaSpec({ items: { ...schema, enum: ["always", ...LISTED] } }));
    const valid = LISTED.filter((value) => isValid(value));
    assert.ok(matches(grammar, JSON.stringify(valid)), JSON.stringify(schema));
    for (const value of LISTED) {
      if (valid.includes(value)) continue;
      const text = JSON.stringify([value]);
      assert.ok(!matches(grammar, text), `${text} by ${JSON.stringify(schema)}`);
    }
  }
});

const REFUSED: readonly (readonly [schema: unknown, param: string])[] = [
  [{ type: "object", properties: { a: { not: { const: 1 } } } }, "schema.properties.a.not"],
  [{ type: "array", items: { $ref: "#/$defs/x" }, $defs: { x: { if: {} } } }, "schema.$defs.x.if"],
  [{ type: "array", uniqueItems: true, maxItems: 3 }, "schema.uniqueItems"],
  [{ type: "string", format: 5 }, "schema.format"],
  [{ type: "string", pattern: "(" }, "schema.pattern"],
  [{ type: "string", minLength: -1 }, "schema.minLength"],
  [{ type: "string", minLength: 3, maxLength: 2 }, "schema.maxLength"],
  [{ type: "number", multipleOf: 1.00001 }, "schema.multipleOf"],
  [{ type: "strin" }, "schema.type"],
  [{ properties: { a: 3 } }, "schema.properties"],
  [{ properties: { "a b": { type: 1 } } }, 'schema.properties["a b"].type'],
  [{ anyOf: [{ type: "null" }, { contains: {} }] }, "schema.anyOf[1].contains"],
  [{ oneOf: [{ type: "integer" }, { type: "number" }] }, "schema.oneOf"],
  [{ oneOf: [{ enum: ["a", 1] }, { type: ["string", "null"] }] }, "schema.oneOf"],
  [{ oneOf: [{ const: null }, { anyOf: [{ type: "null" }, { type: "object" }] }] }, "schema.oneOf"],
  [{ $ref: "#/$defs/missing" }, "schema.$ref"],
  [{ $ref: "https://elsewhere.test/schema" }, "schema.$ref"],
  [{ $ref: "#" }, "schema"],
  [{
    allOf: [{ $ref: "#/$defs/a" }],
    $defs: { a: { $ref: "#/$defs/b" }, b: { $ref: "#/$defs/a" } },
  }, "schema.$defs.a"],
  [{ type: "object", required: ["a"], additionalProperties: false }, "schema.required"],
  [{ type: "array", maxItems: 1_000_000 }, "schema.maxItems"],
  [false, "schema"],
  [{ type: "object", minProperties: 9 }, "schema.minProperties"],
  [{ propertyNames: { pattern: "^[ab]$" }, minProperties: 3 }, "schema"],
  [{
    oneOf: [
      { unevaluatedProperties: false, anyOf: [{ properties: { x: {} }, required: ["x"] }] },
      { properties: { x: { const: 1 } }, required: ["x"], unevaluatedProperties: false },
    ],
  }, "schema.oneOf"],
  [{ enum: [] }, "schema.enum"],
  [{ allOf: [{ type: "string" }, { type: "integer" }] }, "schema"],
  [3, "schema"],
];

Deno.test("a schema's grammar filters 2,000 listed objects, and compares 600 in oneOf", () => {
  const listed = Array.from({ length: 2000 }, (_, id) => ({ id, of: `n${id}` }));
  const grammar = compile(schemaSpec({ enum: listed, properties: { id: { maximum: 99 } } }));
  assert.ok(matches(grammar, '{"id": 99, "of": "n99"}'));
  assert.ok(!matches(grammar, '{"id": 100, "of": "n100"}'));
  const oneOf = Array.from({ length: 30 }, (_, i) => ({ enum: listed.slice(20 * i, 20 * i + 20) }));
  assert.ok(matches(compile(schemaSpec({ oneOf })), '{"id": 599, "of": "n599"}'));
});

/** Calls `run` with a clock that advances by an hour at each reading. */
function withBusyMachine<T>(run: () => T): T {
  const { now } = performance;
  let hours = 0;
  Object.assign(performance, { now: () => ++hours * 3_600_000 });
  try {
    return run();
  } finally {
    Object.assign(performance, { now });
  }
}

Deno.test("5,000 choices and as many listed values compile, even on a busy machine", () => {
  const words = Array.from({ length: 5000 }, (_, i) => `item ${(i * 7919) % 5003} of ${i}`);
  const uuids = words.map((_, i) => `${crypto.randomUUID().slice(0, -4)}${1000 + i}`);
  withBusyMachine(() => {
    for (const texts of [words, uuids]) {
      const choice = compile({ kind: "choice", choices: texts });
      assert.ok(matches(choice, texts[4711]!));
      assert.ok(!matches(choice, `${texts[4711]}x`));
      const grammar = compile(schemaSpec(object({ a: { enum: texts } })));
      assert.ok(matches(grammar, `{"a":"${texts[4999]}"}`));
      assert.ok(!matches(grammar, `{"a":"${texts[4999]}x"}`));
    }
    const numbers = compile(schemaSpec({ enum: words.map((_, i) => 37 * i) }));
    assert.ok(matches(numbers, "3700") && !matches(numbers, "3701"));
  });
});

/** String formats of zod. */
const FORMATS: readonly z.ZodType[] = [
  z.string().startsWith("ab."),
  z.string().regex(/^(?!x)[a-z]{2,4}$/),
  z.string().lowercase(),
  z.string().uppercase(),
  z.uuid(),
  z.guid(),
  z.nanoid(),
  z.cuid(),
  z.cuid2(),
  z.ulid(),
  z.xid(),
  z.ksuid(),
  z.email(),
  z.ipv4(),
  z.ipv6(),
  z.cidrv4(),
  z.cidrv6(),
  z.base64(),
  z.base64url(),
  z.e164(),
  z.emoji(),
  z.iso.date(),
  z.iso.time(),
  z.iso.datetime(),
  z.iso.duration(),
  z.hex(),
  z.hash("sha256"),
];

Deno.test("zod accepts what the grammars of its string formats generate", () => {
  const random = new Random(11);
  for (const type of FORMATS) {
    const schema = z.toJSONSchema(type) as { format?: string; pattern?: string };
    const grammar = BYTES.compile(schemaSpec(schema));
    let numWhole = 0;
    for (let i = 0; i < 20; i++) {
      const text = walkGrammar(grammar, { random, maxBytes: 400 });
      if (text === undefined) continue;
      numWhole++;
      assert.ok(type.safeParse(JSON.parse(text)).success, `${schema.format}: ${text}`);
    }
    assert.ok(numWhole > 0, schema.format);
  }
});

Deno.test("zod's endsWith and includes are enforced", () => {
  const end = compile(schemaSpec(z.toJSONSchema(z.string().endsWith("[x]"))));
  assert.ok(matches(end, '"a[x]"') && !matches(end, '"a[x]b"'));
  const middle = compile(schemaSpec(z.toJSONSchema(z.string().includes("a+b"))));
  assert.ok(matches(middle, '"xa+b"') && !matches(middle, '"xaab"'));
});

Deno.test("an unknown format does not restrict a string", () => {
  for (const format of ["path", "file-path", "klingon", "json-string", "regex", "binary"]) {
    const grammar = compile(schemaSpec({ type: "string", format, maxLength: 3 }));
    assert.ok(matches(grammar, '"a/b"') && !matches(grammar, '"abcd"'), format);
  }
});

Deno.test("each format in STRING_FORMATS compiles", () => {
  for (const format of STRING_FORMATS) compile(schemaSpec({ type: "string", format }));
});

for (const [schema, param] of REFUSED) {
  Deno.test(`a schema is refused at ${param}: ${JSON.stringify(schema).slice(0, 60)}`, () => {
    assert.throws(
      () => compile(schemaSpec(schema)),
      (error) =>
        error instanceof HearthError && error.kind === "invalid_value" && error.param === param,
    );
  });
}
