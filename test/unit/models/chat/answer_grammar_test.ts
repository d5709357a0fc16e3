import assert from "node:assert/strict";
import { GrammarCompiler } from "../../../../src/engine/grammar/compiler.ts";
import type { GrammarMatcher } from "../../../../src/engine/grammar/grammar.ts";
import { CALL_FORMATS } from "../../../../src/models/text/chat/template_message.ts";
import type { CallFormat } from "../../../../src/models/text/calls/call_format.ts";
import {
  type AnswerFormat,
  toAnswerGrammar,
} from "../../../../src/models/text/chat/answer_format.ts";
import { AnswerParser } from "../../../../src/models/text/chat/answer_parser.ts";
import type { ChatTask, ToolOptions } from "../../../../src/models/task.ts";
import { FUNCTIONS } from "../calls/examples.ts";

const END = 256;

/** A vocabulary of single bytes. */
const BYTES = new GrammarCompiler(() => ({
  vocabSize: 257,
  getBytes: (id) => id === END ? undefined : Uint8Array.of(id),
  addedTokens: new Map(),
  endTokenIds: new Set([END]),
}));

const THINK = { open: "<think>", close: "</think>" };

function makeTask(tools: Partial<ToolOptions>, grammar?: ChatTask["grammar"]): ChatTask {
  return {
    type: "chat",
    requestId: "test",
    messages: [],
    options: { stop: [], n: 1 },
    tools: { functions: FUNCTIONS, choice: "required", isParallel: true, ...tools },
    grammar,
  };
}

function makeForm(format: CallFormat, extra: Partial<AnswerFormat> = {}): AnswerFormat {
  return { calls: { format, functions: FUNCTIONS, isIgnored: false }, ...extra };
}

function allows({ mask }: GrammarMatcher, token: number): boolean {
  return (mask[token >> 5]! >>> (token % 32) & 1) === 1;
}

/** The length of the prefix that the grammar accepts, and whether the answer may end there. */
function follow(task: ChatTask, form: AnswerFormat, text: string) {
  const spec = toAnswerGrammar(task, form);
  assert.ok(spec);
  const matcher = BYTES.compile(spec).createMatcher();
  const bytes = new TextEncoder().encode(text);
  for (const [at, byte] of bytes.entries()) {
    if (!allows(matcher, byte)) return { at: text.slice(0, at), isWhole: false };
    matcher.accept(byte);
  }
  return { at: text, isWhole: matcher.isFinished || allows(matcher, END) };
}

/** An answer in each format: a call of `get_weather`, then one of `ping`. */
const ANSWERS: Readonly<Record<string, string>> = {
  harmony: "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant" +
    '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris", "days": 2}<|call|>' +
    "<|start|>assistant<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}",
  hermes:
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
  qwen_xml:
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>\n<tool_call>\n<function=ping>\n</function>\n</tool_call>",
  glm:
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>\n<tool_call>ping\n</tool_call>",
  llama:
    '{"name": "get_weather", "parameters": {"city": "Paris", "days": 2}}; {"name": "ping", "parameters": {}}',
  mistral:
    '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "ping", "arguments": {}}]',
  mistral_args: '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris", "days": 2}[TOOL_CALLS]ping[ARGS]{}',
  granite:
    '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "ping", "arguments": {}}]',
  lfm2: '<|tool_call_start|>[get_weather(city="Paris", days=2), ping()]<|tool_call_end|>',
  minicpm:
    '<|tool_call_start|>\n```python\nget_weather(city="Paris", days=2)\nping()\n```\n<|tool_call_end|>',
  smollm3:
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n</tool_call>\n<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>',
  phi:
    'functools[{"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}, {"name": "ping", "arguments": {}}]',
  deepseek:
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris", "days": 2}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>ping\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  deepseek_v31:
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris", "days": 2}<｜tool▁call▁end｜><｜tool▁call▁begin｜>ping<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
  function_gemma:
    "<start_function_call>call:get_weather{city:<escape>Paris<escape>,days:2}<end_function_call><start_function_call>call:ping{}<end_function_call>",
  gemma:
    '<|tool_call>call:get_weather{city:<|"|>Paris<|"|>,days:2}<tool_call|><|tool_call>call:ping{}<tool_call|>',
};

Deno.test("toAnswerGrammar() forces calls that the parser of each format can read", () => {
  for (const format of CALL_FORMATS) {
    const answer = ANSWERS[format.name]!;
    const form = makeForm(format);
    assert.deepEqual(
      follow(makeTask({}), form, answer),
      { at: answer, isWhole: true },
      format.name,
    );
    const parser = new AnswerParser(form);
    const deltas = [...parser.push(answer), ...parser.end()].flatMap(({ toolCalls }) => toolCalls);
    const calls = deltas.filter(({ name }) => name !== undefined);
    assert.deepEqual(calls.map(({ name }) => name), ["get_weather", "ping"], format.name);
    assert.deepEqual(JSON.parse(calls[0]!.arguments), { city: "Paris", days: 2 });
    // No other text is allowed, and no other function.
    assert.equal(follow(makeTask({}), form, "Hello").at.length < 3, true);
    const wrong = answer.replaceAll("ping", "pong");
    assert.equal(follow(makeTask({}), form, wrong).isWhole, false, format.name);
  }
});

Deno.test("toAnswerGrammar() enforces a named function, and a single call if only one is allowed", () => {
  for (const format of CALL_FORMATS) {
    const answer = ANSWERS[format.name]!;
    const form = makeForm(format);
    const named = makeTask({ choice: { name: "ping" } });
    assert.equal(follow(named, form, answer).isWhole, false, format.name);
    const alone = makeTask({ isParallel: false });
    assert.equal(follow(alone, form, answer).isWhole, false, format.name);
  }
});

Deno.test("toAnswerGrammar() restricts arguments to the schema: required fields and types", () => {
  const hermes = CALL_FORMATS.find(({ name }) => name === "hermes")!;
  const call = (json: string) =>
    `<tool_call>\n{"name": "get_weather", "arguments": ${json}}\n</tool_call>`;
  const check = (json: string) => follow(makeTask({}), makeForm(hermes), call(json)).isWhole;
  assert.equal(check('{"city": "Paris"}'), true);
  assert.equal(check('{"days": 2}'), false);
  assert.equal(check('{"city": 5}'), false);
  assert.equal(check('{"city": "Paris", "unit": "kelvin"}'), false);
  assert.equal(check('{"city": "Paris", "moon": 1}'), false);
  assert.equal(check("[]"), false);
});

Deno.test("toAnswerGrammar() accepts composed parameters, and no argument that they do not name", () => {
  const city = { properties: { city: { type: "string" } }, required: ["city"] };
  const days = { properties: { days: { type: "integer" } }, required: ["days"] };
  const compositions: Record<string, unknown>[] = [
    { type: "object", properties: {}, allOf: [city, days] },
    { ...city, allOf: [days] },
    { ...city, anyOf: [days, { required: ["city"] }] },
    { ...city, oneOf: [days] },
    { $ref: "#/$defs/both", $defs: { both: { ...city, allOf: [days] } } },
    { ...city, type: ["object", "null"], nullable: true, anyOf: [days] },
  ];
  const form = makeForm(CALL_FORMATS.find(({ name }) => name === "hermes")!);
  for (const parameters of compositions) {
    const task = makeTask({ functions: [{ name: "f", parameters }] });
    const check = (json: string) => {
      const text = `<tool_call>\n{"name": "f", "arguments": ${json}}\n</tool_call>`;
      return follow(task, form, text).isWhole;
    };
    const context = JSON.stringify(parameters);
    assert.equal(check('{"city": "Paris", "days": 2}'), true, context);
    assert.equal(check('{"city": "Paris", "days": 2, "moon": 1}'), false, context);
    assert.equal(check('{"days": 2}'), false, context);
    assert.equal(check("null"), false, context);
  }
});

/** A call of `f` without string arguments, in formats that write arguments one by one. */
const ONE_BY_ONE: Readonly<Record<string, (args: Readonly<Record<string, unknown>>) => string>> = {
  lfm2: (args) => {
    const list = Object.entries(args).map(([name, each]) => `${name}=${JSON.stringify(each)}`);
    return `<|tool_call_start|>[f(${list.join(", ")})]<|tool_call_end|>`;
  },
  gemma: (args) => {
    const list = Object.entries(args).map(([name, each]) => `${name}:${JSON.stringify(each)}`);
    return `<|tool_call>call:f{${list.join(",")}}<tool_call|>`;
  },
  glm: (args) => {
    const list = Object.entries(args).map(([name, each]) =>
      `<arg_key>${name}</arg_key>\n<arg_value>${each}</arg_value>\n`
    );
    return `<tool_call>f\n${list.join("")}</tool_call>`;
  },
};

Deno.test("toAnswerGrammar() accepts hundreds of optional arguments in formats that write them one by one", () => {
  const names = Array.from({ length: 300 }, (_, index) => `p${index}`);
  const properties = Object.fromEntries(names.map((name) => [name, { type: "integer" }]));
  const task = (required: string[]) =>
    makeTask({ functions: [{ name: "f", parameters: { type: "object", properties, required } }] });
  for (const [name, write] of Object.entries(ONE_BY_ONE)) {
    const form = makeForm(CALL_FORMATS.find((each) => each.name === name)!);
    const check = (args: Record<string, unknown>, required: string[] = []) =>
      follow(task(required), form, write(args)).isWhole;
    for (const args of [{}, { p0: 1 }, { p299: 1 }, { p3: 1, p4: 2, p299: 3 }]) {
      assert.equal(check(args), true, `${name} ${JSON.stringify(args)}`);
    }
    assert.equal(check({ p4: 1, p3: 2 }), false, name);
    assert.equal(check({ p300: 1 }), false, name);
    assert.equal(check({ p0: 1, p7: 2 }, ["p0"]), true, name);
    assert.equal(check({ p7: 2 }, ["p0"]), false, name);
  }
});

Deno.test("toAnswerGrammar() restricts arguments to the patterns that match their names", () => {
  const parameters = {
    type: "object",
    properties: { n_a: {}, n_c: {}, n_b: { maximum: 5 }, text: {} },
    patternProperties: { "^n_": { type: "integer" }, "_b$": { minimum: 3 } },
    additionalProperties: false,
    required: ["n_a", "n_c"],
  };
  const task = makeTask({ functions: [{ name: "f", parameters }] });
  for (const [name, write] of Object.entries(ONE_BY_ONE)) {
    const form = makeForm(CALL_FORMATS.find((each) => each.name === name)!);
    const check = (args: Record<string, unknown>) => follow(task, form, write(args)).isWhole;
    assert.equal(check({ n_a: 1, n_c: 2 }), true, name);
    assert.equal(check({ n_a: 1, n_c: 2, n_b: 4 }), true, name);
    for (const n_b of [2, 6]) assert.equal(check({ n_a: 1, n_c: 2, n_b }), false, name);
    assert.equal(check({ n_a: 1 }), false, name);
    assert.equal(check({ n_a: true, n_c: 2 }), false, name);
    assert.throws(() => {
      const patternProperties = { "(": {} };
      const wrong = {
        functions: [{ name: "f", parameters: { ...parameters, patternProperties } }],
      };
      follow(makeTask(wrong), form, "");
    }, { kind: "invalid_value", param: 'tools[0].function.parameters.patternProperties["("]' });
  }
});

Deno.test("toAnswerGrammar() with auto enforces strict functions only after the start of a call", () => {
  const hermes = CALL_FORMATS.find(({ name }) => name === "hermes")!;
  const form = makeForm(hermes);
  assert.equal(toAnswerGrammar(makeTask({ choice: "auto" }), form), undefined);
  const functions = FUNCTIONS.map((each) => ({ ...each, strict: true }));
  const strict = makeTask({ choice: "auto", functions });
  for (const text of ["Hello.", "", "<tool", `Look: ${ANSWERS["hermes"]!}`, ANSWERS["hermes"]!]) {
    assert.equal(follow(strict, form, text).isWhole, true, text);
  }
  for (const text of ["<tool_call>", "<tool_call>x", '<tool_call>\n{"name": "pong"']) {
    assert.equal(follow(strict, form, text).isWhole, false, text);
  }
});

Deno.test("toAnswerGrammar() with auto does not restrict arguments of functions that are not strict", () => {
  const beside = {
    name: "look_up",
    parameters: {
      type: "object",
      required: ["word"],
      properties: {
        word: { type: "string", enum: ["hedgehog"] },
        // A grammar cannot enforce this pattern.
        pattern: { type: "string", pattern: "(?=a)b" },
      },
    },
  };
  const functions = [...FUNCTIONS.map((each) => ({ ...each, strict: true })), beside];
  const task = makeTask({ choice: "auto", functions });
  const form = makeForm(CALL_FORMATS.find(({ name }) => name === "hermes")!);
  const call = (name: string, json: string) =>
    follow(task, form, `<tool_call>\n{"name": "${name}", "arguments": ${json}}\n</tool_call>`)
      .isWhole;
  for (const json of ["{}", '{"word": 5}', '{"other": [1], "word": "fox"}']) {
    assert.equal(call("look_up", json), true, json);
    assert.equal(call("get_weather", json), false, json);
  }
  assert.equal(call("get_weather", '{"city": "Paris"}'), true);
  assert.equal(call("look_up", "[]"), false, "arguments that are no object could not be passed on");
  for (const format of CALL_FORMATS) {
    const loose = FUNCTIONS.map((each) => ({ ...each, strict: each.name === "ping" }));
    const text = ANSWERS[format.name]!;
    const { isWhole } = follow(
      makeTask({ choice: "auto", functions: loose }),
      makeForm(format),
      text,
    );
    assert.equal(isWhole, true, format.name);
  }
  const qwen = makeForm(CALL_FORMATS.find(({ name }) => name === "qwen_xml")!);
  const xml = (parameter: string) =>
    `<tool_call>\n<function=look_up>\n${parameter}</function>\n</tool_call>`;
  assert.equal(follow(task, qwen, xml("")).isWhole, true, "nothing is required");
  assert.equal(follow(task, qwen, xml("<parameter=word>\nfox\n</parameter>\n")).isWhole, true);
});

Deno.test("toAnswerGrammar() applies only after the reasoning, whether the prompt or the answer opens it", () => {
  const hermes = CALL_FORMATS.find(({ name }) => name === "hermes")!;
  const answer = ANSWERS["hermes"]!;
  const check = (state: "may_open" | "is_open" | "is_closed", text: string) =>
    follow(makeTask({}), makeForm(hermes, { reasoning: { markers: THINK, state } }), text).isWhole;
  assert.equal(check("is_open", `Hm, {}.\n</think>\n\n${answer}`), true);
  assert.equal(check("may_open", `<think>Hm.</think>${answer}`), true);
  assert.equal(check("may_open", answer), true);
  assert.equal(check("may_open", `Hm.${answer}`), false);
  assert.equal(check("is_closed", answer), true);
  assert.equal(check("is_closed", `<think>Hm.</think>${answer}`), false);

  const choice = { kind: "choice", choices: ["yes", "no"] } as const;
  const asked = { ...makeTask({}, choice), tools: undefined };
  const form = { reasoning: { markers: THINK, state: "is_open" } } as const;
  assert.equal(follow(asked, form, "Hm.</think>yes").isWhole, true);
  assert.equal(follow(asked, form, "yes").isWhole, false);
});

Deno.test("toAnswerGrammar() with auto and a response format accepts a call or that format", () => {
  const hermes = CALL_FORMATS.find(({ name }) => name === "hermes")!;
  const choice = { kind: "choice", choices: ["yes", "no"] } as const;
  const task = makeTask({ choice: "auto" }, choice);
  assert.equal(follow(task, makeForm(hermes), "yes").isWhole, true);
  assert.equal(follow(task, makeForm(hermes), ANSWERS["hermes"]!).isWhole, true);
  assert.equal(follow(task, makeForm(hermes), "perhaps").isWhole, false);
});

Deno.test("toAnswerGrammar() puts a requested format into gpt-oss's channel for text", () => {
  const harmony = CALL_FORMATS.find(({ name }) => name === "harmony")!;
  const task = makeTask({});
  const chosen: ChatTask = {
    ...task,
    tools: undefined,
    grammar: { kind: "choice", choices: ["yes", "no"] },
  };
  const isWhole = (answer: string, form = makeForm(harmony)) =>
    follow(chosen, form, answer).isWhole;
  const [thought, head] = [
    "<|channel|>analysis<|message|>Hm.<|end|>",
    "<|channel|>final<|message|>",
  ];
  assert.equal(isWhole(`${head}yes`), true);
  assert.equal(isWhole(`${thought}<|start|>assistant${head}no`), true);
  assert.equal(isWhole("yes"), false);
  assert.equal(isWhole(`${thought}yes`), false);
  const begun = { ...makeForm(harmony).calls!, isBegun: true };
  assert.equal(isWhole("yes", { calls: begun }), true);
});

Deno.test("toAnswerGrammar() with auto enforces strict functions between gpt-oss's special tokens", () => {
  const harmony = CALL_FORMATS.find(({ name }) => name === "harmony")!;
  const functions = [{ ...FUNCTIONS[0]!, strict: true }];
  const form = { calls: { format: harmony, functions, isIgnored: false } };
  const spec = toAnswerGrammar(makeTask({ choice: "auto", functions }), form)!;
  const special = harmony.markers.map((name, i) => [name, 256 + i] as const);
  const grammar = new GrammarCompiler(() => ({
    vocabSize: 256 + special.length,
    getBytes: (id) => id < 256 ? Uint8Array.of(id) : undefined,
    addedTokens: new Map(special),
    endTokenIds: new Set([new Map(special).get("<|return|>")!]),
  })).compile(spec);
  const accepts = (answer: string) => {
    const matcher = grammar.createMatcher();
    const ids = answer.split(/(<\|\w+\|>)/).flatMap((part) => {
      const id = new Map(special).get(part);
      return id === undefined ? [...new TextEncoder().encode(part)] : [id];
    });
    return ids.every((id) => {
      const isAllowed = allows(matcher, id);
      if (isAllowed) matcher.accept(id);
      return isAllowed;
    });
  };
  const thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  const call = (json: string) =>
    `${thought}<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>${json}`;
  assert.equal(accepts(`${thought}<|channel|>final<|message|>Hello.`), true);
  assert.equal(accepts(call('{"city": "Paris"}<|call|>')), true);
  assert.equal(accepts(call('{"city": 5}')), false);
});
