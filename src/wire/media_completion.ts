/**
 * A chat completion whose content is media, from endpoints that take `messages` and create files.
 *
 * @module
 */
import { z } from "zod";
import type { CompletionHead } from "./chat_response.ts";
import { integerFrom } from "./fields.ts";

const ImageContent = z.object({
  type: z.literal("image"),
  image_url: z.object({ url: z.string().describe("A data: URL of a PNG file") }),
}).meta({ id: "ImageContent" });

const AudioContent = z.object({
  type: z.literal("audio"),
  audio_url: z.object({ url: z.string().describe("A data: URL of an audio file") }),
}).meta({ id: "AudioContent" });

/** An answer that holds an image. */
export const ImageCompletion = completionSchema(ImageContent).meta({ id: "ImageCompletion" });

/** An answer that holds speech. */
export const AudioCompletion = completionSchema(AudioContent).meta({ id: "AudioCompletion" });

export type ImageCompletion = z.output<typeof ImageCompletion>;

export type AudioCompletion = z.output<typeof AudioCompletion>;

/** Builds an answer that holds a PNG file. */
export function imageCompletion(head: CompletionHead, png: Uint8Array): ImageCompletion {
  const url = `data:image/png;base64,${png.toBase64()}`;
  return completion(head, { content: { type: "image", image_url: { url } }, numTokens: 0 });
}

/** Builds an answer that holds an audio file. @param speech.numTokens of the text. */
export function audioCompletion(
  head: CompletionHead,
  speech: {
    readonly file: Uint8Array;
    readonly contentType: string;
    readonly numTokens: number;
  },
): AudioCompletion {
  const { file, contentType, numTokens } = speech;
  const url = `data:${contentType.replaceAll(" ", "")};base64,${file.toBase64()}`;
  return completion(head, { content: { type: "audio", audio_url: { url } }, numTokens });
}

function completionSchema<T extends z.ZodType>(content: T) {
  return z.object({
    id: z.string(),
    object: z.literal("chat.completion"),
    created: integerFrom(0).describe("Seconds since 1970"),
    model: z.string(),
    choices: z.array(z.object({
      index: integerFrom(0),
      message: z.object({ role: z.literal("assistant"), content: z.array(content) }),
      finish_reason: z.literal("stop"),
    })),
    usage: z.object({
      prompt_tokens: integerFrom(0),
      completion_tokens: integerFrom(0),
      total_tokens: integerFrom(0),
    }).describe("Tokens of text; images and audio do not count as tokens"),
  });
}

function completion<Content>(
  head: CompletionHead,
  { content, numTokens }: { readonly content: Content; readonly numTokens: number },
) {
  return {
    id: head.id,
    object: "chat.completion" as const,
    created: head.createdSeconds,
    model: head.model,
    choices: [{
      index: 0,
      message: { role: "assistant" as const, content: [content] },
      finish_reason: "stop" as const,
    }],
    usage: { prompt_tokens: numTokens, completion_tokens: 0, total_tokens: numTokens },
  };
}
