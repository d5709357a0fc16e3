/**
 * The voices of the loaded model: `GET /audio/voices`, and the choice of one.
 *
 * @module
 */
import { requireEndpoint } from "../../../wire/endpoints.ts";
import { VoiceList, voiceList } from "../../../wire/speech.ts";
import { HearthError } from "../../../base/errors.ts";
import type { ModelInfo } from "../../../worker/protocol.ts";
import type { AppDeps, Route } from "../route.ts";

const MAX_SHOWN = 20;

/** The list. */
export function voicesRoute({ session }: AppDeps): Route {
  return {
    method: "GET",
    path: "/audio/voices",
    operation: {
      summary: "The voices of the loaded model",
      response: { description: "The list", content: VoiceList },
      errors: ["unsupported_by_model", "model_not_loaded", "shutting_down"],
    },
    handle: (call) => {
      const info = session.requireReady();
      requireEndpoint(info, "/audio/speech", "/audio/voices");
      return call.json(voiceList(info.voices ?? []));
    },
  };
}

/**
 * The id of the voice with this name: its id in any case, or the part after `_` of its id if that is unique, so that
 * `alloy` is `af_alloy`. `default` is the first voice.
 *
 * @throws {HearthError} `invalid_value`, naming the available voices, if any.
 */
export function findVoice({ id: model, voices = [] }: ModelInfo, name: string): string {
  const wanted = name.toLowerCase();
  const exact = voices.find(({ id }) => id.toLowerCase() === wanted);
  const similar = voices.filter(({ id }) => id.toLowerCase().endsWith(`_${wanted}`));
  const found = exact ?? (similar.length === 1 ? similar[0] : undefined) ??
    (wanted === "default" ? voices[0] : undefined);
  if (found !== undefined) return found.id;
  if (voices.length === 0) {
    throw new HearthError(
      "invalid_value",
      `voice: ${model} has no voice of its own; send a recording beside the text, in messages.`,
      { param: "voice" },
    );
  }
  const shown = voices.slice(0, MAX_SHOWN).map(({ id }) => id).join(", ");
  const more = voices.length > MAX_SHOWN ? ` and ${voices.length - MAX_SHOWN} more` : "";
  throw new HearthError(
    "invalid_value",
    `voice: want one of those of ${model}: ${shown}${more} (see /audio/voices), saw ${
      JSON.stringify(name.slice(0, 40))
    }.`,
    { param: "voice" },
  );
}
