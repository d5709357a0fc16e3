/**
 * Requests of real clients, recorded from the code that builds them: one or more for every client, with the meaning
 * that the client intends.
 *
 * @module
 */
import { encodePng } from "../../../src/media/image/png.ts";

type Fields = Readonly<Record<string, unknown>>;

/** The intent of a request, which its answer must show. */
export type Meaning =
  /** Non-empty text. */
  | "text"
  /** At most four tokens. */
  | "four tokens"
  /** A call of the tool. */
  | "call"
  /** JSON that the schema `CITY` accepts. */
  | "city"
  /** A thought in addition to the text. */
  | "thought"
  /** No thought. */
  | "no thought";

/** A request without its model. */
export interface RecordedBody {
  readonly client: string;
  /** `/v1/chat/completions` if absent. */
  readonly path?: string;
  readonly means: Meaning;
  readonly body: Fields;
}

const ASKED = { role: "user", content: "What is the capital of France?" };
const SYSTEM = { role: "system", content: "You are a helpful assistant." };
const WEATHER = { role: "user", content: "What is the weather in Paris?" };
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
};
const FUNCTION = { name: "get_weather", description: "Current weather.", parameters: PARAMETERS };
const TOOLS = [{ type: "function", function: FUNCTION }];
const CITY = {
  type: "object",
  properties: { city: { type: "string", enum: ["Rome", "Oslo"] } },
  required: ["city"],
  additionalProperties: false,
};
const CALL = {
  id: "call_1",
  type: "function",
  function: { name: "get_weather", arguments: '{"city":"Paris"}' },
};
/** A call that the client has answered. */
const ANSWERED = [
  WEATHER,
  { role: "assistant", content: null, tool_calls: [CALL] },
  { role: "tool", tool_call_id: "call_1", content: '{"temperature": 21, "condition": "sunny"}' },
];
const USAGE = { stream: true, stream_options: { include_usage: true } };

/** llama.cpp's samplers, in the format that its page sends after they are set. */
const LLAMA_SAMPLING = {
  temperature: 0.8,
  dynatemp_range: 0,
  dynatemp_exponent: 1,
  top_k: 40,
  top_p: 0.95,
  min_p: 0.05,
  xtc_probability: 0.1,
  xtc_threshold: 0.1,
  typ_p: 1,
  repeat_last_n: 64,
  repeat_penalty: 1.1,
  presence_penalty: 0,
  frequency_penalty: 0,
  dry_multiplier: 0.8,
  dry_base: 1.75,
  dry_allowed_length: 2,
  dry_penalty_last_n: -1,
};

const PNG = encodePng({ width: 4, height: 4, channels: 3, data: new Uint8Array(48) }).toBase64();
/** An image within a conversation; only vision models accept it. */
export const PICTURE = { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } };

const CHATS: readonly RecordedBody[] = [{
  client: "llama.cpp's page",
  means: "four tokens",
  body: {
    ...LLAMA_SAMPLING,
    messages: [SYSTEM, { ...ASKED, tool_calls: undefined, tool_call_id: undefined }],
    stream: true,
    return_progress: true,
    reasoning_format: "auto",
    max_tokens: 4,
    samplers: ["top_k", "typ_p", "top_p", "min_p", "temperature"],
    backend_sampling: false,
    timings_per_token: true,
  },
}, {
  client: "Jan",
  means: "four tokens",
  body: {
    ...LLAMA_SAMPLING,
    messages: [ASKED],
    thread_id: "t",
    stream: true,
    typical_p: 1,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: 0.1,
    dry_sequence_breakers: ["\n", ":"],
    n_predict: 4,
    n_indent: 0,
    n_keep: 0,
    stop: [],
    seed: -1,
    logit_bias: null,
    n_probs: 0,
    min_keep: 0,
    t_max_predict_ms: null,
    image_data: [],
    id_slot: -1,
    cache_prompt: true,
    return_tokens: false,
    post_sampling_probs: false,
    lora: [],
    response_fields: null,
    tools: [],
    tool_choice: "auto",
  },
}, {
  client: "SillyTavern, a custom endpoint",
  means: "four tokens",
  body: {
    messages: [SYSTEM, { role: "system", content: "[Start a new chat]" }, {
      ...ASKED,
      name: "User",
    }],
    temperature: 1,
    max_tokens: 4,
    max_completion_tokens: undefined,
    stream: true,
    presence_penalty: 0,
    frequency_penalty: 0,
    top_p: 1,
    top_k: undefined,
    stop: undefined,
    logit_bias: {},
    seed: undefined,
    n: 1,
    reasoning_effort: "medium",
    verbosity: undefined,
  },
}, {
  client: "SillyTavern, texts",
  path: "/v1/completions",
  means: "four tokens",
  body: {
    prompt: "The capital of France is",
    max_new_tokens: 4,
    max_tokens: 4,
    n_predict: 4,
    temperature: 1,
    dynamic_temperature: false,
    dynatemp_range: 0,
    top_p: 1,
    typical_p: 1,
    typical: 1,
    min_p: 0.1,
    repetition_penalty: 1,
    repeat_penalty: 1.05,
    repeat_last_n: 0,
    frequency_penalty: 0,
    presence_penalty: 0,
    top_k: 0,
    min_length: 0,
    min_tokens: 0,
    num_beams: 1,
    length_penalty: 1,
    early_stopping: false,
    add_bos_token: true,
    smoothing_factor: 0,
    stopping_strings: ["\nUser:"],
    stop: ["\nUser:"],
    truncation_length: 4096,
    ban_eos_token: false,
    skip_special_tokens: true,
    include_reasoning: true,
    top_a: 0,
    tfs: 1,
    mirostat_mode: 0,
    mirostat: 0,
    mirostat_tau: 5,
    mirostat_eta: 0.1,
    custom_token_bans: "",
    banned_strings: [],
    sampler_order: [6, 0, 1, 3, 4, 2, 5],
    xtc_threshold: 0.1,
    xtc_probability: 0,
    nsigma: 0,
    dry_multiplier: 0,
    dry_sequence_breakers: '["\\n",":"]',
    logit_bias: [],
    grammar: "",
    grammar_string: "",
    json_schema: null,
    guidance_scale: 1,
    negative_prompt: "",
    seed: -1,
    stream: true,
    logprobs: undefined,
    cache_prompt: true,
  },
}, {
  client: "Open WebUI",
  means: "four tokens",
  body: {
    stream: true,
    messages: [ASKED],
    temperature: 0.8,
    top_p: 0.9,
    max_tokens: 4,
    frequency_penalty: 0,
    seed: 0,
    stop: ["<end>"],
    stream_options: { include_usage: true },
    tool_ids: undefined,
    features: { web_search: false, image_generation: false },
    chat_id: "c",
    session_id: "s",
    background_tasks: { title_generation: true },
  },
}, {
  client: "Open WebUI, what it sends to Ollama",
  means: "no thought",
  body: {
    stream: false,
    temperature: 0,
    messages: [ASKED],
    options: { temperature: 0.8, num_ctx: 2048, mirostat: 0, repeat_last_n: 64, tfs_z: 1 },
    keep_alive: "5m",
    think: false,
    num_predict: 20,
  },
}, {
  client: "Ollama's clients, with images beside the content",
  means: "city",
  body: { messages: [{ ...ASKED, images: [] }], stream: false, format: CITY, think: false },
}, {
  client: "LM Studio's clients",
  means: "city",
  body: {
    messages: [ASKED],
    temperature: 0.7,
    max_tokens: -1,
    top_k: 40,
    repeat_penalty: 1.1,
    stream: false,
    ttl: 300,
    response_format: { type: "json_schema", json_schema: { name: "a", schema: CITY } },
  },
}, {
  client: "LibreChat",
  means: "four tokens",
  body: {
    messages: [{ role: "system", content: "Be brief." }, ASKED],
    user: "65f0c0ffee",
    stream: true,
    stream_options: { include_usage: true },
    temperature: 1,
    top_p: 1,
    presence_penalty: 0,
    frequency_penalty: 0,
    max_tokens: 4,
    n: 1,
  },
}, {
  client: "Continue",
  means: "four tokens",
  body: {
    messages: [ASKED],
    max_tokens: 4,
    temperature: 0.5,
    top_p: undefined,
    frequency_penalty: undefined,
    presence_penalty: undefined,
    stream: true,
    stop: ["</end>"],
    prediction: undefined,
    tools: TOOLS,
    parallel_tool_calls: false,
  },
}, {
  client: "Continue, completion of code",
  path: "/v1/completions",
  means: "four tokens",
  body: {
    prompt: "The capital of France is",
    max_tokens: 4,
    temperature: 0.01,
    stop: ["<fim_prefix>", "<fim_suffix>", "/src/", "\n\n", "```"],
    stream: true,
  },
}, {
  client: "Cline",
  means: "text",
  body: {
    messages: [SYSTEM, { role: "user", content: [{ type: "text", text: ASKED.content }] }],
    temperature: 0,
    max_tokens: undefined,
    reasoning_effort: undefined,
    ...USAGE,
  },
}, {
  client: "Zed",
  means: "text",
  body: {
    messages: [SYSTEM, ...ANSWERED],
    ...USAGE,
    max_completion_tokens: 40,
    temperature: 0,
    tool_choice: "auto",
    tools: TOOLS,
    prompt_cache_key: "thread",
  },
}, {
  client: "Aider, through LiteLLM",
  means: "text",
  body: {
    messages: [SYSTEM, ASKED, { role: "assistant", content: "Ok." }, ASKED],
    temperature: 0,
    stream: true,
    extra_body: { reasoning: { effort: "low" } },
    num_retries: 0,
  },
}, {
  client: "LiteLLM",
  means: "thought",
  body: {
    messages: [ASKED],
    stream: false,
    temperature: 0,
    max_tokens: 40,
    thinking: { type: "enabled", budget_tokens: 1024 },
    allowed_openai_params: ["thinking"],
    drop_params: true,
    metadata: { user_api_key: "x" },
    n: 1,
  },
}, {
  client: "aichat",
  means: "call",
  body: {
    messages: [SYSTEM, WEATHER],
    temperature: 0,
    top_p: 0.9,
    max_tokens: 256,
    stream: true,
    tools: TOOLS,
  },
}, {
  client: "n8n",
  means: "text",
  body: {
    messages: [ASKED],
    temperature: 0,
    top_p: 1,
    frequency_penalty: 0,
    presence_penalty: 0,
    max_tokens: -1,
    n: 1,
    stream: false,
    response_format: { type: "text" },
  },
}, {
  client: "Dify",
  means: "four tokens",
  body: {
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0.7,
    top_p: 1,
    frequency_penalty: 0,
    presence_penalty: 0,
    max_tokens: 4,
    messages: [SYSTEM, ASKED],
    user: "abc-123",
    enable_thinking: false,
    chat_template_kwargs: { enable_thinking: false, thinking: false },
  },
}, {
  client: "AnythingLLM",
  means: "four tokens",
  body: { stream: true, messages: [SYSTEM, ASKED], temperature: 0.7, max_tokens: 4 },
}, {
  client: "Big-AGI",
  means: "thought",
  body: {
    messages: [SYSTEM, { role: "user", content: [{ type: "text", text: ASKED.content }] }],
    max_tokens: 40,
    temperature: 0,
    ...USAGE,
    reasoning: { enabled: true, max_tokens: 1024 },
    web_search_options: {},
    plugins: [],
  },
}, {
  client: "Big-AGI, with a built-in function",
  means: "call",
  body: {
    messages: [SYSTEM, WEATHER],
    stream: true,
    temperature: 0,
    tools: [...TOOLS, { type: "builtin_function", function: { name: "$web_search" } }],
    tool_choice: { type: "function", function: { name: "get_weather" } },
    thinking: { type: "disabled" },
  },
}, {
  client: "Chatbox",
  means: "four tokens",
  body: { messages: [ASKED], max_tokens: 4, temperature: 0.7, top_p: 1, ...USAGE },
}, {
  client: "KoboldAI Lite",
  means: "four tokens",
  body: {
    messages: [ASKED],
    max_tokens: 4,
    temperature: 0.75,
    top_p: 0.92,
    top_k: 100,
    rep_pen: 1.07,
    sampler_order: [6, 0, 1, 3, 4, 2, 5],
    stop: [""],
    logit_bias: {},
    stream: false,
  },
}];

/** Requests of terminal agents: the first one, and the one after a tool's result. */
const AGENTS: readonly RecordedBody[] = [{
  client: "Qwen Code",
  means: "call",
  body: {
    messages: [SYSTEM, WEATHER],
    temperature: 0,
    top_p: 0.95,
    tools: TOOLS,
    tool_choice: "required",
    ...USAGE,
    metadata: { sessionId: "s", promptId: "p" },
    vl_high_resolution_images: true,
  },
}, {
  client: "Qwen Code, after a result",
  means: "text",
  body: { messages: [SYSTEM, ...ANSWERED], tools: TOOLS, ...USAGE, temperature: 0 },
}, {
  client: "opencode",
  means: "text",
  body: {
    messages: [SYSTEM, ...ANSWERED],
    max_tokens: 40,
    temperature: 0,
    top_p: 1,
    tools: TOOLS,
    tool_choice: "auto",
    ...USAGE,
    reasoningEffort: "medium",
  },
}, {
  client: "GitHub Copilot CLI",
  means: "text",
  body: {
    messages: [SYSTEM, ...ANSWERED],
    tools: TOOLS,
    stream: true,
    temperature: 0,
    n: 1,
    parallel_tool_calls: true,
    reasoning_effort: "medium",
    snippy: { enabled: false },
    copilot_thread_id: "t",
  },
}, {
  client: "Claude Code",
  path: "/v1/messages",
  means: "call",
  body: {
    max_tokens: 200,
    system: [
      { type: "text", text: "x-anthropic-billing-header: cc_version=2.1;" },
      { type: "text", text: SYSTEM.content, cache_control: { type: "ephemeral" } },
    ],
    messages: [{
      role: "user",
      content: [{ type: "text", text: WEATHER.content, cache_control: { type: "ephemeral" } }],
    }],
    tools: [
      { name: "get_weather", description: "Current weather.", input_schema: PARAMETERS },
      { type: "web_search_20250305", name: "web_search", max_uses: 8 },
    ],
    tool_choice: { type: "tool", name: "get_weather" },
    metadata: { user_id: "user_1_account__session_2" },
    thinking: { type: "disabled" },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    stream: true,
    temperature: 0,
  },
}, {
  client: "Claude Code, after a result",
  path: "/v1/messages",
  means: "text",
  body: {
    max_tokens: 60,
    messages: [
      { role: "user", content: WEATHER.content },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Ask the tool.", signature: "" },
          { type: "tool_use", id: "toolu_1", name: "get_weather", input: { city: "Paris" } },
        ],
      },
      {
        role: "user",
        content: [{
          type: "tool_result",
          tool_use_id: "toolu_1",
          content: [{ type: "text", text: '{"temperature": 21, "condition": "sunny"}' }],
        }],
      },
    ],
    tools: [{ name: "get_weather", input_schema: PARAMETERS }],
    stream: true,
    temperature: 0,
  },
}, {
  client: "Codex",
  path: "/v1/responses",
  means: "call",
  body: {
    instructions: SYSTEM.content,
    input: [
      { type: "message", role: "developer", content: [{ type: "input_text", text: "Rules." }] },
      { type: "message", role: "user", content: [{ type: "input_text", text: WEATHER.content }] },
    ],
    tools: [
      { type: "function", ...FUNCTION, strict: false },
      { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark" } },
      { type: "web_search", external_web_access: false },
    ],
    tool_choice: { type: "function", name: "get_weather" },
    parallel_tool_calls: false,
    reasoning: { effort: "none", summary: "auto" },
    store: false,
    stream: true,
    include: ["reasoning.encrypted_content"],
    prompt_cache_key: "p",
    text: { verbosity: "medium" },
    client_metadata: { session: "s" },
  },
}, {
  client: "Codex, after a patch",
  path: "/v1/responses",
  means: "text",
  body: {
    instructions: SYSTEM.content,
    input: [
      { type: "message", role: "user", content: [{ type: "input_text", text: "Fix it." }] },
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" },
      { type: "custom_tool_call", call_id: "c", name: "apply_patch", input: "*** Begin Patch" },
      { type: "custom_tool_call_output", call_id: "c", output: "Success" },
      { type: "web_search_call", id: "ws", status: "completed", action: { type: "search" } },
      { type: "compaction", id: "cmp", encrypted_content: "x" },
      { type: "message", role: "user", content: [{ type: "input_text", text: ASKED.content }] },
    ],
    tools: [{ type: "function", ...FUNCTION, strict: false }],
    store: false,
    stream: true,
    temperature: 0,
  },
}, {
  client: "Home Assistant",
  path: "/v1/responses",
  means: "call",
  body: {
    input: [
      { type: "message", role: "developer", content: "You control a house." },
      { type: "message", role: "user", content: WEATHER.content },
    ],
    max_output_tokens: 200,
    top_p: 1,
    temperature: 0,
    user: "01J0",
    service_tier: "auto",
    store: false,
    stream: true,
    reasoning: { effort: "none", summary: "auto" },
    include: ["reasoning.encrypted_content"],
    tools: [{ type: "function", ...FUNCTION, strict: false }],
    tool_choice: "required",
  },
}];

/** All recorded bodies. */
export const RECORDED: readonly RecordedBody[] = [...CHATS, ...AGENTS];
