/**
 * The first and second requests of coding agents: 18,000 tokens of instructions and tools fit a server with default
 * flags, and the next turn computes only the new tokens. The bodies have the layout and length of agents' own; the
 * model has Qwen3's layers, tokens and template, and random weights.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { copyTokenizer, TOKENIZERS } from "../../bench/real/twin.ts";
import { QWEN3, writeQwen3 } from "../../bench/real/qwen3.ts";
import { unlessThere } from "../../fixtures/engine/goldens.ts";
import { HearthProcess } from "../../fixtures/servers/hearth_process.ts";
import { readStrictly } from "../../fixtures/servers/sse.ts";

const IS_THERE = existsSync(join(TOKENIZERS, "qwen3"));

const SIZES = {
  ...QWEN3,
  ...{ hidden: 32, intermediate: 32, layers: 2, heads: 2, kvHeads: 1, headDim: 16 },
};

const VERBS = ["Read", "Edit", "Search", "Run", "List", "Fetch", "Rename", "Plan", "Ask", "Review"];
const THINGS = ["file", "folder", "test", "branch", "symbol", "page", "notebook", "task", "diff"];
const PROPERTIES = ["path", "pattern", "limit", "offset", "mode", "reason", "timeout", "glob"];

/** Paragraphs of instructions, all different. */
function instruct(topic: string, count: number): string {
  return Array.from({ length: count }, (_, i) => {
    const [verb, thing] = [VERBS[i * 7 % VERBS.length], THINGS[i * 5 % THINGS.length]];
    return `## ${topic} ${
      i + 1
    }\n\n${verb} the ${thing} before you change it, and say in one line ` +
      `what you expect. Where ${i * 13 % 97} lines or more differ, stop and ask. Never write a ` +
      `${thing} that nobody asked for; keep its indentation, its line ends and its ${
        i % 60
      } tests.`;
  }).join("\n\n");
}

/** Schemas of tools, each a page long. */
const TOOLS = Array.from({ length: 20 }, (_, i) => ({
  name: `${VERBS[i % VERBS.length]}${THINGS[i % THINGS.length]}${i}`,
  description: instruct(`Use of tool ${i}`, 7),
  schema: {
    type: "object",
    properties: Object.fromEntries(PROPERTIES.map((name, at) => [name, {
      type: at % 3 === 2 ? "integer" : "string",
      description: `The ${name} that tool ${i} works with, as the user sees it; ${at} by default.`,
    }])),
    required: PROPERTIES.slice(0, 1 + i % 3),
    additionalProperties: false,
  },
}));

const SYSTEM = instruct("Conduct", 60);
const TASK =
  "The parser's test for nested brackets fails since yesterday. Find out why and mend it.";
const RESULT = Array.from({ length: 60 }, (_, i) => `${i + 1}\tconst part${i} = parse(${i * 31});`);
const PATH = { path: "src/parser.ts" };
const TOOL = TOOLS[0]!.name;

/** Prompt tokens of a request, and how many came from the cache. */
interface Usage {
  readonly numTokens: number;
  readonly numCached: number;
}

/** The API calls of an agent. */
interface Agent {
  readonly path: string;
  /** The first request. */
  readonly first: Readonly<Record<string, unknown>>;
  /** The field with the conversation, and the items that a turn adds to it: a call by the model and its result. */
  readonly field: "messages" | "input";
  readonly turn: readonly object[];
  /** Finds the usage among a stream's events. */
  // deno-lint-ignore no-explicit-any -- `JSON.parse` returns any.
  readonly readUsage: (events: any[]) => Usage;
}

const OUTPUT = RESULT.join("\n");

const AGENTS: Readonly<Record<string, Agent>> = {
  "Claude Code": {
    path: "/v1/messages",
    field: "messages",
    first: {
      max_tokens: 4,
      system: [
        { type: "text", text: "You are a coding agent." },
        { type: "text", text: SYSTEM, cache_control: { type: "ephemeral" } },
      ],
      tools: TOOLS.map(({ name, description, schema }) => ({
        name,
        description,
        input_schema: schema,
      })),
      messages: [{ role: "user", content: [{ type: "text", text: TASK }] }],
    },
    turn: [
      {
        role: "assistant",
        content: [{ type: "tool_use", id: "toolu_1", name: TOOL, input: PATH }],
      },
      {
        role: "user",
        content: [{
          ...{ type: "tool_result", tool_use_id: "toolu_1", content: OUTPUT },
          cache_control: { type: "ephemeral" },
        }],
      },
    ],
    readUsage: (events) => {
      // The number of cached tokens is not known yet when the message starts.
      const { usage } = events.find(({ type }) => type === "message_delta");
      const numCached = usage.cache_read_input_tokens;
      return { numTokens: usage.input_tokens + numCached, numCached };
    },
  },
  "an agent of chat completions": {
    path: "/v1/chat/completions",
    field: "messages",
    first: {
      max_completion_tokens: 4,
      stream_options: { include_usage: true },
      tools: TOOLS.map(({ name, description, schema }) => ({
        type: "function",
        function: { name, description, parameters: schema },
      })),
      messages: [
        { role: "system", content: `You write code with chat.\n\n${SYSTEM}` },
        { role: "user", content: TASK },
      ],
    },
    turn: [
      {
        role: "assistant",
        content: null,
        tool_calls: [{
          ...{ id: "call_1", type: "function" },
          function: { name: TOOL, arguments: JSON.stringify(PATH) },
        }],
      },
      { role: "tool", tool_call_id: "call_1", content: OUTPUT },
    ],
    readUsage: (events) => {
      const { usage } = events.at(-1);
      return {
        numTokens: usage.prompt_tokens,
        numCached: usage.prompt_tokens_details.cached_tokens,
      };
    },
  },
  "an agent of responses": {
    path: "/v1/responses",
    field: "input",
    first: {
      max_output_tokens: 16,
      store: false,
      instructions: `You write code with responses.\n\n${SYSTEM}`,
      tools: TOOLS.map(({ name, description, schema }) => ({
        type: "function",
        name,
        description,
        parameters: schema,
        strict: false,
      })),
      input: [{ type: "message", role: "user", content: [{ type: "input_text", text: TASK }] }],
    },
    turn: [
      {
        ...{ type: "function_call", call_id: "call_1", name: TOOL },
        arguments: JSON.stringify(PATH),
      },
      { type: "function_call_output", call_id: "call_1", output: OUTPUT },
    ],
    readUsage: (events) => {
      const { usage } = events.at(-1).response;
      return {
        numTokens: usage.input_tokens,
        numCached: usage.input_tokens_details.cached_tokens,
      };
    },
  },
};

/** Tokens per block: prefixes are cached in whole blocks. */
const BLOCK = 16;
/** Tokens at the start of the model's answer, which the next turn may or may not contain. */
const HEAD = 8;

async function ask(base: string, agent: Agent, body: object): Promise<Usage> {
  const response = await fetch(`${base}${agent.path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "twin", stream: true, ...body }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return agent.readUsage(readStrictly(text));
}

async function assertTurns(base: string, agent: Agent): Promise<void> {
  const { first, field, turn } = agent;
  const before = await ask(base, agent, first);
  assert.ok(before.numTokens > 18_000 && before.numTokens < 20_000, `${before.numTokens} tokens`);
  assert.ok(before.numCached < 1000, `${before.numCached} found of another agent's prompt`);
  const said = [...first[field] as readonly object[], ...turn];
  const after = await ask(base, agent, { ...first, [field]: said });
  const numNew = after.numTokens - before.numTokens;
  assert.ok(numNew > 500 && numNew < 2000, `${numNew} new tokens`);
  const numComputed = after.numTokens - after.numCached;
  assert.ok(numComputed <= numNew + BLOCK + HEAD, `${numComputed} computed of ${numNew} new`);
}

Deno.test({
  name:
    "coding agents' first prompts fit with default flags, and the next turn computes only its new tokens" +
    unlessThere(IS_THERE, "tokenizers/qwen3", "agents' prompts in Qwen3's template"),
  ignore: !IS_THERE,
  fn: async (t) => {
    const folder = join(await Deno.makeTempDir({ prefix: "hearth-agent-prompts-" }), "twin");
    try {
      await Deno.mkdir(folder);
      await copyTokenizer("qwen3", folder);
      await writeQwen3(folder, { sizes: SIZES, dtypes: ["q4"] });
      await using hearth = new HearthProcess(["-m", folder, "--port", "0"]);
      const base = await hearth.ready();
      for (const [name, agent] of Object.entries(AGENTS)) {
        await t.step(name, () => assertTurns(base, agent));
      }
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
