/**
 * The bodies of `/tokenize`, `/detokenize` and `/apply-template`, in the formats of vLLM and llama.cpp, and their
 * answers.
 *
 * @module
 */
import { z } from "zod";
import { ChatRequest } from "./chat_request.ts";
import { anyText, flag, integerFrom, listSchema, tokenId } from "./fields.ts";
import { TOOL_FIELDS } from "./tool_request.ts";

/** Most tokens of a request to `/detokenize`. */
const MAX_TOKENS = 250_000;

const {
  messages,
  add_generation_prompt,
  continue_final_message,
  chat_template_kwargs,
  reasoning_effort,
} = ChatRequest.shape;

/** Fields of requests that render a conversation. */
const CHAT_FIELDS = {
  ...{ messages, add_generation_prompt, continue_final_message, chat_template_kwargs },
  reasoning_effort,
  ...TOOL_FIELDS,
  model: z.unknown().optional().describe("Ignored: the loaded model is used"),
};

/** A request to render a conversation. */
export const ApplyTemplateRequest = z.object(CHAT_FIELDS, { error: "a JSON object" })
  .meta({ id: "ApplyTemplateRequest" });

/** A request for the tokens of a text or a conversation. */
export const TokenizeRequest = z.object({
  ...CHAT_FIELDS,
  messages: CHAT_FIELDS.messages.optional(),
  prompt: anyText().nullish().describe("vLLM's name for the text"),
  content: anyText().nullish().describe("llama.cpp's name for the text"),
  add_special_tokens: flag().nullish().describe("vLLM's field; default true"),
  add_special: flag().nullish().describe("llama.cpp's field; default false"),
  return_token_strs: flag().nullish().describe("vLLM's field: return token_strs as well"),
  with_pieces: flag().nullish().describe(
    "llama.cpp's field: return tokens as objects with id and piece",
  ),
}, { error: "a JSON object" })
  .refine(
    ({ messages, prompt, content }) =>
      [messages, prompt, content].filter((each) => each !== undefined && each !== null).length ===
        1,
    { path: ["prompt"], error: "one of prompt, content and messages" },
  )
  .meta({
    id: "TokenizeRequest",
    oneOf: ["prompt", "content", "messages"].map((name) => ({ required: [name] })),
  });

/** A request for the text of given tokens. */
export const DetokenizeRequest = z.object({
  tokens: listSchema(tokenId(), { max: MAX_TOKENS }),
  model: z.unknown().optional(),
}, { error: "a JSON object" }).meta({ id: "DetokenizeRequest" });

/** The answer with the tokens. */
export const TokenizeResponse = z.object({
  count: integerFrom(0),
  max_model_len: integerFrom(1).nullable(),
  tokens: z.array(
    z.union([
      integerFrom(0),
      z.object({
        id: integerFrom(0),
        piece: z.union([z.string(), z.array(integerFrom(0, 255))])
          .describe("Text of the token; its bytes if they are not whole characters"),
      }),
    ]),
  ),
  token_strs: z.array(z.string()).nullable()
    .describe("Texts of the tokens; bytes that are not a whole character are written as \\xe2"),
}).meta({ id: "TokenizeResponse" });

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A token in llama.cpp's format: its text, or its bytes if they are not valid text. */
export function tokenPiece(bytes: readonly number[]): string | number[] {
  try {
    return decoder.decode(Uint8Array.from(bytes));
  } catch {
    return [...bytes];
  }
}

/** The answer with the text, under vLLM's and llama.cpp's names. */
export const DetokenizeResponse = z.object({ prompt: z.string(), content: z.string() })
  .meta({ id: "DetokenizeResponse" });

/** The answer with the rendered prompt. */
export const ApplyTemplateResponse = z.object({ prompt: z.string() })
  .meta({ id: "ApplyTemplateResponse" });

export type ApplyTemplateRequest = z.output<typeof ApplyTemplateRequest>;
