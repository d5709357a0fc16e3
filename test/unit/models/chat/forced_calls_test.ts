import assert from "node:assert/strict";
import { HearthError } from "../../../../src/base/errors.ts";
import type { Grammar } from "../../../../src/engine/grammar/grammar.ts";
import type { CallFormat } from "../../../../src/models/text/calls/call_format.ts";
import { CALL_FORMATS } from "../../../../src/models/text/chat/template_message.ts";
import { toAnswerGrammar } from "../../../../src/models/text/chat/answer_format.ts";
import { AnswerParser } from "../../../../src/models/text/chat/answer_parser.ts";
import type { ToolFunction } from "../../../../src/models/task.ts";
import { BYTES, walkGrammar } from "../../../fixtures/text/grammar_walk.ts";
import { getFaults } from "../../../fixtures/text/json_validator.ts";
import { RandomSchemas } from "../../../fixtures/text/random_schemas.ts";
import { Random } from "../../engine/random.ts";

const DRAFT = { $schema: "https://json-schema.org/draft/2020-12/schema" };

/** The grammar of an answer that must call one of these functions. */
function forcedGrammar(format: CallFormat, functions: readonly ToolFunction[]): Grammar {
  const spec = toAnswerGrammar({
    type: "chat",
    requestId: "test",
    messages: [],
    options: { stop: [], n: 1 },
    tools: { functions, choice: "required", isParallel: true },
  }, { calls: { format, functions, isIgnored: false } });
  assert.ok(spec);
  return BYTES.compile(spec);
}

/** The calls of an answer, which must contain no other text. */
function readCalls(format: CallFormat, functions: readonly ToolFunction[], answer: string) {
  const parser = new AnswerParser({ calls: { format, functions, isIgnored: false } });
  const calls: { name: string; json: string }[] = [];
  for (const { text, toolCalls } of [...parser.push(answer), ...parser.end()]) {
    assert.equal(text, "", answer);
    for (const { index, name = "", arguments: json } of toolCalls) {
      const call = calls[index] ??= { name, json: "" };
      call.json += json;
    }
  }
  assert.ok(parser.hasWholeCalls, answer);
  return calls.map(({ name, json }) => ({ name, value: JSON.parse(json) }));
}

/** Generates random calls in a format. @returns their number. @throws {AssertionError} if one does not fit. */
function checkWalks(
  format: CallFormat,
  { parameters, random, numWalks }: {
    readonly parameters: Record<string, unknown>;
    readonly random: Random;
    readonly numWalks: number;
  },
): number {
  const functions = [{ name: "get_it", parameters }, { name: "ping" }];
  const grammar = forcedGrammar(format, functions);
  let numCalls = 0;
  for (let i = 0; i < numWalks; i++) {
    const answer = walkGrammar(grammar, { random });
    if (answer === undefined) continue;
    for (const { name, value } of readCalls(format, functions, answer)) {
      if (name === "ping") continue;
      const faults = getFaults({ ...DRAFT, ...parameters }, value);
      assert.equal(faults, "", `${format.name}: ${answer}\n${JSON.stringify(parameters)}`);
      numCalls++;
    }
  }
  return numCalls;
}

Deno.test("forced calls fit random schemas in every format", () => {
  const random = new Random(21);
  const schemas = new RandomSchemas(() => random.between(0, 2 ** 30 - 1) / 2 ** 30);
  let numCalls = 0;
  for (let round = 0; round < 4; round++) {
    const parameters = schemas.document();
    for (const format of CALL_FORMATS) {
      try {
        numCalls += checkWalks(format, { parameters, random, numWalks: 2 });
      } catch (error) {
        if (!(error instanceof HearthError)) throw error;
        assert.equal(error.kind, "invalid_value");
      }
    }
  }
  assert.ok(numCalls > 50, `only ${numCalls}`);
});

/** Parameters with references, as pydantic writes them. */
const REFERRING = {
  $ref: "#/$defs/all",
  $defs: {
    all: {
      type: "object",
      properties: {
        unit: { $ref: "#/$defs/unit" },
        id: { type: "string", pattern: "^[a-c]{2}\\d$" },
        day: { type: "string", format: "date", description: "of birth" },
        short: { type: "string", minLength: 1, maxLength: 3 },
        count: { allOf: [{ $ref: "#/$defs/count" }], description: "how many" },
        place: { $ref: "#/$defs/place" },
        inner: { anyOf: [{ $ref: "#/$defs/all" }, { type: "null" }] },
        odd: { enum: ["<b>", 'say "so"', "a\nb", "ü", "</x>"] },
        "two-part": { minimum: 3, maximum: 5 },
        größe: { const: "groß" },
      },
      required: ["unit", "id", "count", "place"],
      allOf: [{ required: ["odd"] }, { properties: { short: { pattern: "^[xyz]*$" } } }],
    },
    unit: { type: "string", enum: ["celsius", "fahrenheit"] },
    count: { type: "integer", minimum: 1, maximum: 3 },
    place: {
      properties: { city: { type: "string", maxLength: 2 } },
      required: ["city"],
      additionalProperties: false,
    },
  },
};

Deno.test("forced calls fit schemas with references, lists and patterns, in every format", () => {
  const random = new Random(22);
  for (const format of CALL_FORMATS) {
    const numCalls = checkWalks(format, { parameters: REFERRING, random, numWalks: 16 });
    assert.ok(numCalls > 2, `${format.name}: only ${numCalls}`);
  }
});

Deno.test("forced calls are refused if a format cannot enforce the schema", () => {
  const composed = { properties: { a: {} }, anyOf: [{ required: ["a"] }] };
  const named = { properties: { "a b": {} }, required: ["a b"] };
  const formats = new Map(CALL_FORMATS.map((format) => [format.name, format]));
  for (
    const [name, parameters, param] of [
      ["qwen_xml", composed, "tools[0].function.parameters"],
      ["lfm2", named, 'tools[0].function.parameters.properties["a b"]'],
      [
        "gemma",
        { properties: { a: {} }, minProperties: 1 },
        "tools[0].function.parameters",
      ],
    ] as const
  ) {
    assert.throws(
      () => forcedGrammar(formats.get(name)!, [{ name: "f", parameters }]),
      (error) => error instanceof HearthError && error.param === param,
      name,
    );
  }
});
