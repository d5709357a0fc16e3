/**
 * The answers to `/messages` and `/messages/count_tokens`.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

const Block = z.discriminatedUnion("type", [
  z.object({ type: z.literal("text"), text: z.string() }),
  z.object({ type: z.literal("thinking"), thinking: z.string(), signature: z.string() }),
  z.object({
    type: z.literal("tool_use"),
    id: z.string(),
    name: z.string(),
    input: z.record(z.string(), z.unknown()),
  }),
]).meta({ id: "MessageBlock" });

const StopReason = z.enum(["end_turn", "max_tokens", "stop_sequence", "tool_use"]);

/** A whole message. */
export const MessageObject = z.object({
  id: z.string(),
  type: z.literal("message"),
  role: z.literal("assistant"),
  model: z.string(),
  content: z.array(Block),
  stop_reason: StopReason.nullable(),
  stop_sequence: z.string().nullable(),
  usage: z.object({
    input_tokens: integerFrom(0).describe(
      "Tokens of the prompt, not counting cache_read_input_tokens",
    ),
    cache_creation_input_tokens: integerFrom(0),
    cache_read_input_tokens: integerFrom(0),
    output_tokens: integerFrom(0),
  }),
}).meta({ id: "Message" });

/** An event of a stream. */
export const MessageEvent = z.looseObject({ type: z.string() }).meta({ id: "MessageEvent" });

/** The number of tokens of a prompt. */
export const TokenCount = z.object({ input_tokens: integerFrom(0) }).meta({ id: "TokenCount" });

export type MessageObject = z.output<typeof MessageObject>;
export type MessageBlock = z.output<typeof Block>;
