/**
 * Fields of chat requests under other servers' names: those of llama.cpp, Ollama, TGI, Anthropic, OpenRouter and
 * others.
 *
 * @module
 */
import { z } from "zod";
import { flag, integerFrom, listSchema, numberFrom, stopField, text } from "./fields.ts";

/** How many previous tokens llama.cpp's repeat penalty covers by default. */
const REPEAT_LAST_N = 64;

const EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max"] as const;

/** Other words for an effort. `undefined` leaves the choice to the model. */
const EFFORT_WORDS: Readonly<Record<string, typeof EFFORTS[number] | undefined>> = {
  "": undefined,
  auto: undefined,
  adaptive: undefined,
  default: "medium",
  enabled: "medium",
  on: "medium",
  true: "medium",
  disabled: "none",
  off: "none",
  false: "none",
};

/** `reasoning_effort`, for which some clients send true or false. */
export const EffortField = z.preprocess(
  (value) => Object.hasOwn(EFFORT_WORDS, String(value)) ? EFFORT_WORDS[String(value)] : value,
  z.enum(EFFORTS, { error: `one of ${EFFORTS.join(", ")}` }).nullish(),
);

type Effort = z.output<typeof EffortField>;

/** A token limit; a negative one means no limit. */
const Limit = () => integerFrom(-2).nullish();

const other = (name: string) => ({ deprecated: true, description: `Another name of ${name}` });

const MAX_BREAKERS = 64;
/** The defaults of llama.cpp and text-generation-webui. */
const DRY = { base: 1.75, allowedLength: 2, breakers: ["\n", ":", '"', "*"] };

/** A list of strings, or the JSON of one: text-generation-webui sends what its user typed. */
function breakersField() {
  return z.preprocess(
    (value) => typeof value === "string" ? readList(value) : value,
    listSchema(text(), { max: MAX_BREAKERS }),
  );
}

function readList(written: string): unknown {
  try {
    return JSON.parse(written);
  } catch {
    return written;
  }
}

/** Other names of token limits, stop strings and sampling fields. */
const GENERATION_SPELLINGS = {
  n_predict: Limit().meta(other("max_tokens")),
  num_predict: Limit().meta(other("max_tokens")),
  max_new_tokens: Limit().meta(other("max_tokens")),
  max_output_tokens: Limit().meta(other("max_tokens")),
  stop_sequences: stopField().nullish().meta(other("stop")),
  repeat_penalty: numberFrom(0.01, 10).nullish().meta({
    deprecated: true,
    description: "repetition_penalty that applies only to the last repeat_last_n tokens",
  }),
  top_n_sigma: numberFrom(-1, 100).nullish().describe(
    "Keep tokens whose logit is at most this many standard deviations below the largest; 0 and -1 are off; default off",
  ),
  dry_multiplier: numberFrom(0, 100).nullish()
    .describe("Strength of DRY, a penalty on tokens that would continue a repetition; default 0"),
  dry_base: numberFrom(0, 100).nullish()
    .describe(
      "How fast DRY's penalty grows with the length of the repetition; default 1.75; below 1, DRY is off",
    ),
  dry_allowed_length: integerFrom(0).nullish()
    .describe("Longest repetition without a DRY penalty; default 2"),
  dry_penalty_last_n: integerFrom(-1).nullish()
    .describe("How many previous tokens DRY covers; default -1, which means all; 0 turns DRY off"),
  dry_sequence_breakers: breakersField().nullish()
    .describe(
      'A repetition ends at a token that contains one of these; default line breaks, : " *',
    ),
  repeat_last_n: integerFrom(-1).nullish().meta({
    deprecated: true,
    description: `Default ${REPEAT_LAST_N}; -1 means all, 0 turns repeat_penalty off`,
  }),
};

const budget = () =>
  integerFrom(-1).nullish().meta({
    deprecated: true,
    description: "0 turns thinking off; other limits are not enforced",
  });

/** Other names of fields that say whether and how much the model thinks. */
const THINKING_SPELLINGS = {
  enable_thinking: EffortField.meta(other("chat_template_kwargs.enable_thinking")),
  think: EffortField.meta(other("reasoning_effort")),
  thinking: z.union([z.object({ type: EffortField }), EffortField], {
    error: 'an object whose type is "enabled" or "disabled"',
  }).meta(other("reasoning_effort")),
  reasoning: z.union([
    z.object({ effort: EffortField, enabled: flag().nullish(), exclude: flag().nullish() }),
    EffortField,
  ], { error: "an object with effort, enabled and exclude" })
    .meta(other("reasoning_effort and include_reasoning")),
  thinking_budget: budget(),
  thinking_budget_tokens: budget(),
  thinking_token_budget: budget(),
};

/** All other names in chat requests. Completion requests have them too, except the names about thinking. */
export const SPELLINGS = {
  ...GENERATION_SPELLINGS,
  ...THINKING_SPELLINGS,
  n_probs: integerFrom(0).nullish().meta(other("logprobs and top_logprobs")),
};

type Spelled = {
  readonly [Name in keyof typeof SPELLINGS]?: z.output<(typeof SPELLINGS)[Name]> | undefined;
};

/** Token limits under their other names. */
export interface LimitSpellings {
  readonly n_predict?: number | null | undefined;
  readonly num_predict?: number | null | undefined;
  readonly max_new_tokens?: number | null | undefined;
  readonly max_output_tokens?: number | null | undefined;
}

/** Settings of DRY. */
interface DrySettings {
  readonly multiplier: number;
  readonly base: number;
  readonly allowedLength: number;
  /** How many previous tokens are searched; `undefined` for all. */
  readonly window: number | undefined;
  readonly breakers: readonly string[];
}

/** The token limit that `request` sets under another name; `undefined` if it sets none. */
export function findOtherLimit(request: LimitSpellings): number | undefined {
  return request.max_output_tokens ?? request.max_new_tokens ?? request.n_predict ??
    request.num_predict ?? undefined;
}

/** The value of `repeat_penalty`, and the number of previous tokens that it covers; `undefined` if it is off. */
export function findRepeatPenalty(
  { repeat_penalty: penalty, repeat_last_n: window }: Spelled,
): { readonly penalty: number; readonly window: number } | undefined {
  const numTokens = window ?? REPEAT_LAST_N;
  if ((penalty ?? 1) === 1 || numTokens === 0) return undefined;
  return { penalty: penalty!, window: numTokens < 0 ? Infinity : numTokens };
}

/** The settings of DRY in a request; `undefined` if it is off. */
export function findDry(request: Spelled): DrySettings | undefined {
  const { dry_multiplier: multiplier, dry_penalty_last_n: window } = request;
  const base = request.dry_base ?? DRY.base;
  if (!multiplier || base < 1 || window === 0) return undefined;
  return {
    multiplier,
    base,
    allowedLength: Math.max(1, request.dry_allowed_length ?? DRY.allowedLength),
    window: (window ?? -1) < 0 ? undefined : window!,
    breakers: request.dry_sequence_breakers ?? DRY.breakers,
  };
}

/** How much the model shall think, from whichever field says so; `undefined` leaves it to the model. */
export function findEffort(
  request: Spelled & { readonly reasoning_effort?: Effort | undefined },
): Effort {
  const { reasoning, thinking } = request;
  const budget = request.thinking_budget ?? request.thinking_budget_tokens ??
    request.thinking_token_budget;
  return request.reasoning_effort ?? readEffort(reasoning) ?? request.think ??
    (isRecord(thinking) ? thinking.type : thinking) ?? request.enable_thinking ??
    (budget === 0 ? "none" : undefined);
}

function readEffort(reasoning: Spelled["reasoning"]): Effort {
  if (!isRecord(reasoning)) return reasoning;
  const { effort, enabled } = reasoning;
  return enabled === false ? "none" : effort ?? (enabled ? "medium" : undefined);
}

/** Whether the answer must not include the model's reasoning. */
export function hidesReasoning({ reasoning }: Spelled): boolean {
  return isRecord(reasoning) && reasoning.exclude === true;
}

function isRecord<T>(value: T): value is Extract<T, object> {
  return typeof value === "object" && value !== null;
}
