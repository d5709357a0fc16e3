import assert from "node:assert/strict";
import {
  CALL_FORMATS,
  detectCallFormat,
} from "../../../../src/models/text/chat/template_message.ts";
import { AnswerParser } from "../../../../src/models/text/chat/answer_parser.ts";
import { Random } from "../../engine/random.ts";
import { EXAMPLES, FUNCTIONS, NO_CALLS } from "./examples.ts";

interface Parsed {
  isWhole?: boolean;
  text: string;
  calls: { id: string; name: string; arguments: string }[];
}

/** Parses an answer that arrives in these chunks. */
function parse(format: string, pieces: Iterable<string>, isCut = false): Parsed {
  const found = CALL_FORMATS.find(({ name }) => name === format);
  assert.ok(found, format);
  const parser = new AnswerParser({
    calls: { format: found, functions: FUNCTIONS, isIgnored: false },
  });
  const parsed: Parsed = { text: "", calls: [] };
  let isOpen = false;
  const add = (deltas: ReturnType<AnswerParser["push"]>) => {
    for (const { text, toolCalls } of deltas) {
      parsed.text += text;
      // A call is complete when text follows it.
      if (text !== "") isOpen = false;
      for (const { index, id, name, arguments: json } of toolCalls) {
        if (id !== undefined && name !== undefined) {
          parsed.calls[index] = { id, name, arguments: "" };
          isOpen = true;
        }
        assert.ok(isOpen && index === parsed.calls.length - 1, "arguments of an ended call");
        parsed.calls[index]!.arguments += json;
      }
    }
  };
  for (const piece of pieces) add(parser.push(piece));
  add(parser.end(isCut));
  assert.equal(parser.numCalls, parsed.calls.length);
  parsed.isWhole = parser.hasWholeCalls;
  return parsed;
}

function withoutIds({ text, calls }: Parsed) {
  return { text, calls: calls.map(({ name, arguments: json }) => ({ name, json })) };
}

/** The same text in chunks, most of them small. */
function cut(text: string, random: Random): string[] {
  const pieces: string[] = [];
  for (let at = 0; at < text.length;) {
    const end = at + random.between(1, random.pick([1, 3, 20]));
    pieces.push(text.slice(at, end));
    at = end;
  }
  return pieces;
}

Deno.test("call formats parse the examples of their models' documentation", () => {
  for (const { format, answer, text, calls } of EXAMPLES) {
    const parsed = parse(format, [answer]);
    assert.equal(parsed.text, text, answer);
    assert.deepEqual(
      parsed.calls.map(({ name, arguments: json }) => ({ name, arguments: JSON.parse(json) })),
      calls,
      answer,
    );
  }
  assert.deepEqual(
    new Set(EXAMPLES.map(({ format }) => format)),
    new Set(CALL_FORMATS.map(({ name }) => name)),
  );
});

Deno.test("call formats leave text that is not a call unchanged", () => {
  for (const { format, answer } of NO_CALLS) {
    const expected = { text: answer, calls: [], isWhole: false };
    assert.deepEqual(parse(format, [answer]), expected, answer);
    assert.deepEqual(parse(format, answer), expected, answer);
  }
});

Deno.test("call formats give the same result for any division of the answer", () => {
  const random = new Random(1);
  for (const { format, answer } of [...EXAMPLES, ...NO_CALLS]) {
    const whole = withoutIds(parse(format, [answer]));
    assert.deepEqual(withoutIds(parse(format, answer.split(""))), whole, answer);
    for (let round = 0; round < 250; round++) {
      assert.deepEqual(withoutIds(parse(format, cut(answer, random))), whole, answer);
    }
  }
});

Deno.test("call formats also give the same result for any division of damaged answers, and never throw", () => {
  const random = new Random(2);
  for (const { format, answer } of EXAMPLES) {
    for (let round = 0; round < 300; round++) {
      const at = random.between(0, answer.length);
      const damaged = random.pick([
        answer.slice(0, at),
        answer.slice(at),
        answer.slice(0, at) + answer.slice(at + random.between(1, 8)),
        answer.slice(0, at) + random.pick(["}", "{", '"', "\\", "<", "]", "(", "x"]) +
        answer.slice(at),
        answer + answer.slice(at),
      ]);
      const whole = withoutIds(parse(format, [damaged]));
      assert.deepEqual(withoutIds(parse(format, damaged.split(""))), whole, damaged);
      assert.deepEqual(withoutIds(parse(format, cut(damaged, random))), whole, damaged);
    }
  }
});

Deno.test("call formats parse a truncated answer as a prefix of the whole", () => {
  for (const { format, answer } of [...EXAMPLES, ...NO_CALLS]) {
    const whole = parse(format, [answer]);
    for (let end = 0; end < answer.length; end++) {
      const kept = answer.slice(0, end);
      const parsed = parse(format, [kept], true);
      const context = `${format}: ${kept}\n${JSON.stringify(parsed)}`;
      const isWord = "functools".startsWith(parsed.text);
      assert.ok(isWord || whole.text.startsWith(parsed.text.trimEnd()), context);
      parsed.calls.forEach(({ name, arguments: json }, i) => {
        assert.equal(name, whole.calls[i]?.name, context);
        assert.ok(whole.calls[i]!.arguments.startsWith(json), context);
      });
      const { calls } = parsed;
      const isWhole = calls.length > 0 &&
        calls.every((call, i) => call.arguments === whole.calls[i]!.arguments);
      assert.equal(parsed.isWhole, isWhole, context);
    }
  }
});

Deno.test("call formats keep the text of a truncated answer, and omit only a call's markup", () => {
  const kept = {
    hermes: ["Hello", "a < b", "x <t>", "Hello. \n"],
    phi: ["The end of", "It is fun"],
    llama: ["Hello", "get", '{"age": 42, "name": "Bo', "[1, 2", ' {"na me": {"x'],
    mistral: ["[TOOL_CALLS] is it", "[T]"],
  };
  for (const [format, answers] of Object.entries(kept)) {
    for (const text of answers) assert.equal(parse(format, [text], true).text, text, text);
  }
});

Deno.test("call formats end a call at lists nested too deeply, instead of overflowing the stack", () => {
  const calls = { lfm2: "ping(x=", minicpm: "ping(x=", gemma: "call:ping{x:", llama: "ping(x=" };
  for (const [format, call] of Object.entries(calls)) {
    const { trigger } = CALL_FORMATS.find(({ name }) => name === format)!.markup;
    const start = format === "llama" ? "" : trigger;
    for (const open of ["[", "{'a':", "{a:", "("]) {
      const within = parse(format, [start + call + open.repeat(50)]);
      const beyond = parse(format, [start + call + open.repeat(20_000)]);
      for (const { calls } of [within, beyond]) {
        assert.ok(calls.every(({ name }) => name === "ping"));
      }
    }
    const deep = parse(format, [`${start}${call}${"[".repeat(100)}1${"]".repeat(100)}`]);
    assert.match(deep.calls[0]!.arguments, /^\{"x": \[{100}1\]{100}$/);
    const deeper = parse(format, [`${start}${call}${"[".repeat(101)}1`]);
    assert.match(deeper.calls[0]!.arguments, /^\{"x": \[{100}$/);
  }
});

Deno.test("call formats stop looking for calls after too many markers that begin none", () => {
  const { markup: { trigger } } = CALL_FORMATS.find(({ name }) => name === "hermes")!;
  // Each of these is read to the end of the answer before it turns out to be text.
  const begun = `${trigger}{"a": [`;
  const call = `${trigger}{"name": "ping", "arguments": {}}`;
  const few = parse("hermes", [begun.repeat(10), call]);
  assert.deepEqual(withoutIds(few), {
    text: begun.repeat(10),
    calls: [{ name: "ping", json: "{}" }],
  });
  const many = parse("hermes", [begun.repeat(5_000), call]);
  assert.deepEqual(withoutIds(many), { text: begun.repeat(5_000) + call, calls: [] });
});

Deno.test("call formats report a call's name before its arguments", () => {
  for (const { format, answer, calls } of EXAMPLES) {
    if (Object.keys(calls[0]!.arguments as object).length === 0) continue;
    const found = CALL_FORMATS.find(({ name }) => name === format)!;
    const parser = new AnswerParser({
      calls: { format: found, functions: FUNCTIONS, isIgnored: false },
    });
    const deltas = answer.split("").flatMap((piece) =>
      parser.push(piece).flatMap(({ toolCalls }) => toolCalls)
    );
    assert.equal(deltas[0]?.name, calls[0]!.name, answer);
    assert.ok(deltas.length >= calls.length, answer);
  }
});

Deno.test("call formats are each detected from their template", () => {
  const templates: Record<string, string> = {
    hermes: '{{ "<tool_call>\\n{\\"name\\": " }} <tools> </tool_call>',
    qwen_xml: "<tool_call>\n<function=example>\n<parameter=a>\n</tool_call>",
    glm: "<tool_call>{name}\n<arg_key>{k}</arg_key>",
    llama: "<|python_tag|> Environment: ipython",
    mistral: '"[TOOL_CALLS] ["',
    mistral_args: "[TOOL_CALLS] [ARGS]",
    granite: "<|tool_call|>[ <|start_of_role|>available_tools",
    lfm2: "List of tools: <|tool_list_start|>[",
    minicpm: "<|tool_call_start|>\n```python\n",
    smollm3: "{% if xml_tools %}<tool_call>{% endif %}{% if python_tools %}<code>",
    phi: "<|tool|>{{ tools }}<|/tool|>",
    deepseek: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜> ```json",
    deepseek_v31: "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
    function_gemma: "<start_function_call>call:",
    gemma: "<|tool_call>call:",
    harmony:
      "<|start|>assistant<|channel|>final<|message|>{% for t in tools %}<|channel|>commentary to=",
  };
  for (const [name, template] of Object.entries(templates)) {
    assert.equal(detectCallFormat(template).name, name);
  }
  assert.deepEqual(Object.keys(templates).sort(), CALL_FORMATS.map(({ name }) => name).sort());
  assert.equal(detectCallFormat("{{ tools }}").name, "llama");
});
