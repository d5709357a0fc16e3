/**
 * Responses, and the events in which they are streamed.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";
import { TokenLogprob } from "./chat_response.ts";

const Status = z.enum(["in_progress", "completed", "incomplete"]);

const Logprob = TokenLogprob.extend({ top_logprobs: z.array(TokenLogprob) });

const OutputText = z.object({
  type: z.literal("output_text"),
  text: z.string(),
  annotations: z.array(z.unknown()),
  logprobs: z.array(Logprob),
});
const ReasoningText = z.object({ type: z.literal("reasoning_text"), text: z.string() });

const SummaryText = z.object({ type: z.literal("summary_text"), text: z.string() });

const OutputItem = z.discriminatedUnion("type", [
  z.object({
    id: z.string(),
    type: z.literal("message"),
    role: z.literal("assistant"),
    status: Status,
    content: z.array(OutputText),
  }),
  z.object({
    id: z.string(),
    type: z.literal("reasoning"),
    status: Status,
    summary: z.array(SummaryText),
    content: z.array(ReasoningText),
  }),
  z.object({
    id: z.string(),
    type: z.literal("function_call"),
    status: Status,
    call_id: z.string(),
    name: z.string(),
    namespace: z.string().optional().describe("The namespace in which the function was defined"),
    arguments: z.string(),
  }),
]).meta({ id: "ResponseOutputItem" });

/** A response, finished or in progress. */
export const ResponseObject = z.object({
  id: z.string(),
  object: z.literal("response"),
  created_at: integerFrom(0).describe("Seconds since 1970"),
  status: z.enum(["in_progress", "completed", "incomplete", "failed"]),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  incomplete_details: z.object({ reason: z.literal("max_output_tokens") }).nullable(),
  instructions: z.string().nullable(),
  max_output_tokens: integerFrom(1).nullable(),
  model: z.string(),
  output: z.array(OutputItem),
  parallel_tool_calls: z.boolean(),
  previous_response_id: z.string().nullable(),
  reasoning: z.object({ effort: z.string().nullable(), summary: z.string().nullable() }),
  store: z.boolean(),
  temperature: z.number().nullable(),
  text: z.object({ format: z.looseObject({ type: z.string() }) }),
  tool_choice: z.unknown(),
  tools: z.array(z.unknown()),
  top_logprobs: integerFrom(0),
  top_p: z.number().nullable(),
  truncation: z.enum(["auto", "disabled"]),
  usage: z.object({
    input_tokens: integerFrom(0),
    input_tokens_details: z.object({ cached_tokens: integerFrom(0) }),
    output_tokens: integerFrom(0),
    output_tokens_details: z.object({ reasoning_tokens: integerFrom(0) }),
    total_tokens: integerFrom(0),
  }).nullable(),
  user: z.string().nullable(),
  metadata: z.record(z.string(), z.string()),
  background: z.literal(false),
}).meta({ id: "Response" });

export type ResponseObject = z.output<typeof ResponseObject>;
export type OutputItem = z.output<typeof OutputItem>;
/** A token with its log-probability, in a part of text. */
export type OutputLogprob = z.output<typeof Logprob>;

/** An event of a stream. `sequence_number` counts the events. */
export const ResponseEvent = z.looseObject({
  type: z.string().describe("response.created … response.completed"),
  sequence_number: integerFrom(0),
}).meta({ id: "ResponseEvent" });

/** The number of tokens of an input. */
export const InputTokenCount = z.object({
  object: z.literal("response.input_tokens"),
  input_tokens: integerFrom(0),
}).meta({ id: "ResponseInputTokens" });

/** The input items of a stored response. */
export const InputItemList = z.object({
  object: z.literal("list"),
  data: z.array(z.looseObject({ id: z.string(), type: z.string() })),
  first_id: z.string().nullable(),
  last_id: z.string().nullable(),
  has_more: z.boolean(),
}).meta({ id: "ResponseInputItems" });

/** The result of deleting a response. */
export const DeletedResponse = z.object({
  id: z.string(),
  object: z.literal("response"),
  deleted: z.literal(true),
}).meta({ id: "DeletedResponse" });
