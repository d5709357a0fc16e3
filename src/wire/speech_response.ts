/**
 * The answers to a speech request that are not sound itself, and the list of voices.
 *
 * @module
 */
import { z } from "zod";
import { integerFrom } from "./fields.ts";

/** One event of a stream. */
export const SpeechEvent = z.discriminatedUnion("type", [
  z.object({
    type: z.literal("speech.audio.delta"),
    audio: z.base64().describe("The next bytes of the file"),
  }),
  z.object({
    type: z.literal("speech.audio.done"),
    usage: z.object({
      input_tokens: integerFrom(0),
      output_tokens: integerFrom(0).describe("Always 0: sound is not counted in tokens"),
      total_tokens: integerFrom(0),
    }),
  }),
]).meta({ id: "SpeechEvent" });

export type SpeechEvent = z.output<typeof SpeechEvent>;

/** The voices of the loaded model. */
export const VoiceList = z.object({
  object: z.literal("list"),
  voices: z.array(z.object({
    id: z.string(),
    name: z.string(),
    language: z.string().describe("As in BCP 47: en-US"),
  })).describe("The first is the default"),
}).meta({ id: "VoiceList" });

export type VoiceList = z.output<typeof VoiceList>;

/** The list of voices. */
export function voiceList(
  voices: readonly { readonly id: string; readonly language: string }[],
): VoiceList {
  return {
    object: "list",
    voices: voices.map(({ id, language }) => ({ id, name: id, language })),
  };
}
