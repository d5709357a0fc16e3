/**
 * A chat completion whose content is media: the answer of endpoints that take `messages` and make files.
 *
 * @module
 */
import { z } from "zod";
import type { CompletionHead } from "./chat_response.ts";
import { integerFrom } from "./fields.ts";

const ImageContent = z.object({
  type: z.literal("image"),
  image_url: z.object({ url: z.string().describe("data: and a PNG file as base64") }),
}).meta({ id: "ImageContent" });

/** The answer that holds a picture. */
export const ImageCompletion = z.object({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: integerFrom(0).describe("Seconds since 1970"),
  model: z.string(),
  choices: z.array(z.object({
    index: integerFrom(0),
    message: z.object({ role: z.literal("assistant"), content: z.array(ImageContent) }),
    finish_reason: z.literal("stop"),
  })),
  usage: z.object({
    prompt_tokens: integerFrom(0),
    completion_tokens: integerFrom(0),
    total_tokens: integerFrom(0),
  }).describe("Always 0: pictures are not counted in tokens"),
}).meta({ id: "ImageCompletion" });

/** See {@linkcode ImageCompletion}. */
export type ImageCompletion = z.output<typeof ImageCompletion>;

/** The answer that holds a PNG file. */
export function imageCompletion(head: CompletionHead, png: Uint8Array): ImageCompletion {
  const url = `data:image/png;base64,${png.toBase64()}`;
  return {
    id: head.id,
    object: "chat.completion",
    created: head.createdSeconds,
    model: head.model,
    choices: [{
      index: 0,
      message: { role: "assistant", content: [{ type: "image", image_url: { url } }] },
      finish_reason: "stop",
    }],
    usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  };
}
