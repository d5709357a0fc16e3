/**
 * Answers with calls from the documentation of real models, and their parsed contents.
 *
 * @module
 */
import type { ToolFunction } from "../../../../src/models/task.ts";

/** The parsed contents of an answer. */
export interface Expected {
  readonly text: string;
  readonly calls: readonly { readonly name: string; readonly arguments: unknown }[];
}

/** An answer in one format. */
export interface Example extends Expected {
  readonly format: string;
  readonly answer: string;
}

/** The functions of the examples. */
export const FUNCTIONS: readonly ToolFunction[] = [
  {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string" },
        unit: { enum: ["celsius", "fahrenheit"] },
        days: { type: "integer" },
        tags: { type: "array", items: { type: "string" } },
        options: { type: "object", properties: { hourly: { type: "boolean" } } },
        note: { anyOf: [{ type: "string" }, { type: "null" }] },
        hourly: { type: "boolean" },
      },
      required: ["city"],
    },
  },
  { name: "get_time", parameters: { type: "object", properties: { city: { type: "string" } } } },
  { name: "ping" },
  {
    name: "plan",
    parameters: {
      $ref: "#/$defs/plan",
      $defs: {
        plan: {
          properties: {
            place: { $ref: "#/$defs/place" },
            days: { allOf: [{ $ref: "#/$defs/days" }] },
          },
          allOf: [{ properties: { tags: { items: { type: "string" } } } }],
        },
        place: { properties: { city: { type: "string" } } },
        days: { type: "integer" },
      },
    },
  },
];

const PARIS = { name: "get_weather", arguments: { city: "Paris" } };
const TOKYO = { name: "get_time", arguments: { city: "Tokyo" } };
const PLAN = { name: "plan", arguments: { place: { city: "Paris" }, days: 2, tags: ["a"] } };
const PING = { name: "ping", arguments: {} };
const FULL = {
  name: "get_weather",
  arguments: {
    city: 'São "Paulo" \\ {x}\n2',
    days: 3,
    tags: ["a, b", "]"],
    options: { hourly: true },
    note: null,
  },
};
const FULL_JSON = JSON.stringify(FULL.arguments);

function of(format: string, answer: string, calls: Expected["calls"], text = ""): Example {
  return { format, answer, calls, text };
}

/** Examples of every format. */
export const EXAMPLES: readonly Example[] = [
  // Qwen2.5 and Qwen3, Hermes 2 Pro
  of(
    "hermes",
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>',
    [PARIS],
  ),
  of(
    "hermes",
    'I look it up.\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n' +
      '<tool_call>\n{"name": "get_time", "arguments": {"city": "Tokyo"}}\n</tool_call>',
    [PARIS, TOKYO],
    "I look it up.",
  ),
  of("hermes", `<tool_call>{"arguments": ${FULL_JSON}, "name": "get_weather"}</tool_call>`, [FULL]),
  of("hermes", '<tool_call>{"id": 7, "name": "ping"}</tool_call>', [PING]),
  of(
    "hermes",
    '<tool_call>{"name": "ping", "arguments": null}</tool_call> Done.',
    [PING],
    " Done.",
  ),
  of(
    "hermes",
    '<tool_call>{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}</tool_call>',
    [PARIS],
  ),
  // Not quite JSON: a line break in a string, commas after the last items
  of(
    "hermes",
    '<tool_call>{"arguments": {"city": "Par\nis", "tags": ["a", ], "days": 3,\n }, "name": "get_weather",}</tool_call>',
    [{ name: "get_weather", arguments: { city: "Par\nis", tags: ["a"], days: 3 } }],
  ),
  // Not quite JSON: escape sequences that JSON lacks, in a regular expression and a shell command
  of(
    "hermes",
    '<tool_call>{"name": "get_weather", "arguments": {"city": "\\d+\\.\\\'\\\\\\"\\u00e9 \\\n"}}</tool_call>',
    [{ name: "get_weather", arguments: { city: "\\d+\\.'\\\"é \\\n" } }],
  ),
  // Qwen3-Coder, Qwen3.5
  of(
    "qwen_xml",
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    [PARIS],
  ),
  of(
    "qwen_xml",
    "Well.\n<tool_call>\n<function=get_weather>\n<parameter=city>\n" + FULL.arguments.city +
      '\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=tags>\n["a, b", "]"]\n</parameter>\n' +
      '<parameter=options>\n{"hourly": true}\n</parameter>\n<parameter=note>\nnull\n</parameter>\n</function>\n</tool_call>\n' +
      "<tool_call>\n<function=ping>\n</function>\n</tool_call>",
    [FULL, PING],
    "Well.",
  ),
  of(
    "qwen_xml",
    "<tool_call>\n<function=get_weather>\n<parameter=hourly>\nTrue\n</parameter>\n<parameter=days>\nmany\n</parameter>\n" +
      "<parameter=note>\n12\n</parameter>\n<parameter=unknown>\n12\n</parameter>\n</function>\n</tool_call>",
    [{
      name: "get_weather",
      arguments: { hourly: true, days: "many", note: "12", unknown: "12" },
    }],
  ),
  of(
    "qwen_xml",
    '<tool_call>\n<function=plan>\n<parameter=place>\n{"city": "Paris"}\n</parameter>\n<parameter=days>\n2\n</parameter>\n' +
      '<parameter=tags>\n["a"]\n</parameter>\n</function>\n</tool_call>',
    [PLAN],
  ),
  // As models write them by mistake: without the first tag, a closing tag, or `</function>`; with Python's literals
  of(
    "qwen_xml",
    "I look.\n<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>\n</tool_call>",
    [PARIS],
    "I look.",
  ),
  of("qwen_xml", "<function=ping>\n</function> Done.", [PING], " Done."),
  of(
    "qwen_xml",
    "<tool_call>\n<function=get_weather>\n<parameter=city>\nParis\n<parameter=days>\n3\n<parameter=note>\nx\n" +
      "</function>\n</tool_call>\n<function=ping>\n</function>\n</tool_call>",
    [{ name: "get_weather", arguments: { city: "Paris", days: 3, note: "x" } }, PING],
  ),
  of(
    "qwen_xml",
    "<tool_call>\n<function=get_weather>\n<parameter=note>\nnone\n</parameter>\n</function>\n</tool_call>",
    [{ name: "get_weather", arguments: { note: "none" } }],
  ),
  of(
    "qwen_xml",
    "<tool_call>\n<function=get_weather>\n<parameter=tags>\n('a', \"b's\")\n</parameter>\n" +
      "<parameter=options>\n{'hourly': True, 1: None}\n</parameter>\n<parameter=hourly>\nTRUE\n</parameter>\n</tool_call>",
    [{
      name: "get_weather",
      arguments: { tags: ["a", "b's"], options: { hourly: true, 1: null }, hourly: true },
    }],
  ),
  // GLM-4.5 and 4.7
  of(
    "glm",
    "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n</tool_call>",
    [PARIS],
  ),
  of(
    "glm",
    `Well.\n<tool_call>get_weather<arg_key>city</arg_key><arg_value>${FULL.arguments.city}</arg_value>` +
      "<arg_key>days</arg_key><arg_value>3</arg_value>" +
      '<arg_key>tags</arg_key><arg_value>["a, b", "]"]</arg_value>' +
      '<arg_key>options</arg_key><arg_value>{"hourly": true}</arg_value>' +
      "<arg_key>note</arg_key><arg_value>null</arg_value></tool_call><tool_call>ping</tool_call>",
    [FULL, PING],
    "Well.",
  ),
  // Llama 3.1 to 3.3
  of("llama", '{"name": "get_weather", "parameters": {"city": "Paris"}}', [PARIS]),
  of(
    "llama",
    '<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}; {"name": "get_time", "parameters": {"city": "Tokyo"}}',
    [PARIS, TOKYO],
  ),
  of(
    "llama",
    'I look it up.<|python_tag|>{"name": "get_weather", "parameters": {"city": "Paris"}}',
    [PARIS],
    "I look it up.",
  ),
  of("llama", '<|python_tag|>brave_search.call(query="weather in Paris")', [{
    name: "brave_search",
    arguments: { query: "weather in Paris" },
  }]),
  of("llama", '[get_weather(city="Paris"), get_time(city="Tokyo")]', [PARIS, TOKYO]),
  of("llama", `\n{"type": "function", "name": "get_weather", "parameters": ${FULL_JSON}}`, [FULL]),
  // Mistral 7B Instruct v0.3, Nemo
  of(
    "mistral",
    '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {"city": "Tokyo"}, "id": "VvvODy9mT"}]',
    [PARIS, TOKYO],
  ),
  // Mistral Small 3.2, Magistral
  of(
    "mistral_args",
    `Well.[TOOL_CALLS]get_weather[ARGS]${FULL_JSON}[TOOL_CALLS]get_time[CALL_ID]VvvODy9mT[ARGS]{"city": "Tokyo"}`,
    [FULL, TOKYO],
    "Well.",
  ),
  // Granite 3
  of(
    "granite",
    '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "ping", "arguments": {}}]',
    [PARIS, PING],
  ),
  of("granite", `<tool_call>[{"name": "get_weather", "arguments": ${FULL_JSON}}]`, [FULL]),
  // LFM2
  of(
    "lfm2",
    "<|tool_call_start|>[get_weather(city=\"Paris\"), get_time(city='Tokyo')]<|tool_call_end|>Looking.",
    [PARIS, TOKYO],
    "Looking.",
  ),
  of("lfm2", '<|tool_call_start|>[ns:a/b(größe="a\\/b", user-id=1)]<|tool_call_end|>', [{
    name: "ns:a/b",
    arguments: { größe: "a/b", "user-id": 1 },
  }]),
  of(
    "lfm2",
    "<|tool_call_start|>[get_weather(city='São \"Paulo\" \\\\ {x}\\n2', days=3, tags=['a, b', ']'], options={'hourly': True}, note=None), ping()]<|tool_call_end|>",
    [FULL, PING],
  ),
  of(
    "lfm2",
    `<|tool_call_start|>[{"name": "get_weather", "arguments": ${FULL_JSON}}]<|tool_call_end|>`,
    [
      FULL,
    ],
  ),
  // LFM2.5: a set, and quotation marks that are not escaped
  of(
    "lfm2",
    "<|tool_call_start|>[get_weather(city='sed -n '1p' a\nb', tags={'a', \"b\"}), get_time(city=\"say \"a, b\" twice\")]" +
      "<|tool_call_end|>",
    [
      { name: "get_weather", arguments: { city: "sed -n '1p' a\nb", tags: ["a", "b"] } },
      { name: "get_time", arguments: { city: 'say "a, b" twice' } },
    ],
  ),
  // MiniCPM3 and MiniCPM4
  of(
    "minicpm",
    '<|tool_call_start|>\n```python\nget_weather(city="Paris")\nget_time(city="Tokyo")\n```\n<|tool_call_end|>',
    [PARIS, TOKYO],
  ),
  // SmolLM3, with xml_tools and with python_tools
  of(
    "smollm3",
    '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>',
    [PARIS],
  ),
  of("smollm3", 'Well. <code>get_weather(city="Paris")</code>', [PARIS], "Well."),
  // Phi-4-mini
  of(
    "phi",
    'functools[{"name": "get_weather", "arguments": {"city": "Paris"}}, {"name": "get_time", "arguments": {"city": "Tokyo"}}]',
    [PARIS, TOKYO],
  ),
  of("phi", `<|tool_call|>[{"name": "get_weather", "arguments": ${FULL_JSON}}]<|/tool_call|>`, [
    FULL,
  ]),
  // DeepSeek V3 and R1
  of(
    "deepseek",
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Paris"}\n```<｜tool▁call▁end｜>\n' +
      `<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n\`\`\`json\n${FULL_JSON}\n\`\`\`<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
    [PARIS, FULL],
  ),
  // DeepSeek V3.1
  of(
    "deepseek_v31",
    'Well.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "Paris"}<｜tool▁call▁end｜>' +
      '<｜tool▁call▁begin｜>get_time<｜tool▁sep｜>{"city": "Tokyo"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    [PARIS, TOKYO],
    "Well.",
  ),
  // gpt-oss
  of(
    "harmony",
    '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Paris"}<|call|>',
    [PARIS],
  ),
  of(
    "harmony",
    "<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather " +
      `<|constrain|>json<|message|>${FULL_JSON}<|call|><|start|>assistant to=functions.ping<|channel|>commentary json` +
      "<|message|>{}<|call|>",
    [FULL, PING],
    "I look.",
  ),
  of(
    "harmony",
    ' to=functions.get_time<|channel|>commentary <|constrain|>json<|message|>{"city": "Tokyo"}',
    [TOKYO],
  ),
  // FunctionGemma
  of(
    "function_gemma",
    "<start_function_call>call:get_weather{city:<escape>Paris<escape>}<end_function_call>",
    [PARIS],
  ),
  // Gemma 4
  of(
    "gemma",
    `Well.<|tool_call>call:get_weather{city:<|"|>${FULL.arguments.city}<|"|>,days:3,tags:[<|"|>a, b<|"|>,<|"|>]<|"|>],` +
      "options:{hourly:true},note:null}<tool_call|><|tool_call>call:ping{}<tool_call|>",
    [FULL, PING],
    "Well.",
  ),
  of(
    "gemma",
    '<|tool_call>call:plan{days:2.,place:{city:<|"|>Paris<|"|>},tags:[<|"|>a<|"|>]}<tool_call|>',
    [PLAN],
  ),
];

/** Text that looks like the beginning of a call but is not one. */
export const NO_CALLS: readonly Pick<Example, "format" | "answer">[] = [
  { format: "hermes", answer: "Use <tool_call> and </tool_call> around it.\n" },
  { format: "hermes", answer: "a < b <tool_c <tool_call>{x}" },
  { format: "hermes", answer: '<tool_call>{"arguments": {"city": "Paris"}}</tool_call>' },
  { format: "qwen_xml", answer: "See <tool_call> <function get_weather>." },
  { format: "qwen_xml", answer: "Write <function=f> or <function=ping." },
  { format: "glm", answer: "The tag <tool_call> and then words." },
  { format: "llama", answer: '{"name": "Bob", "age": 42}' },
  { format: "llama", answer: '{"name": "get_the_moon", "parameters": {}}' },
  { format: "llama", answer: "[1, 2, 3] and more" },
  { format: "llama", answer: " Hello {there}" },
  { format: "mistral", answer: "[TOOL_CALL] is no [TOOL_CALLS] of names" },
  { format: "granite", answer: "<|tool_call|> nothing" },
  { format: "lfm2", answer: "<|tool_call_start|>nothing to call<|tool_call_end|>" },
  { format: "phi", answer: "Import functools and use functools.reduce." },
  { format: "smollm3", answer: "Run <code>print(1)</code>." },
  { format: "deepseek", answer: "<｜tool▁calls▁begin｜>nothing" },
  { format: "harmony", answer: "Write to=functions.f in a < b |>." },
  { format: "gemma", answer: "<|tool_call>nothing<tool_call|>" },
];
