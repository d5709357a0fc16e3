/**
 * Opens speech models, with voice activity detection if the user wants it.
 *
 * @module
 */
import type { OpenContext } from "../family.ts";
import type { AsrModel } from "./asr.ts";
import { VoiceActivity } from "./voice_activity.ts";

/** Opens a model of one family. @throws {StartupError} when the folder lacks a part. */
export type LoadAsr = (context: OpenContext) => Promise<AsrModel>;

/** @throws {StartupError} when the folder or the one of the voice activity model lacks a part. */
export async function openAsr(context: OpenContext, load: LoadAsr): Promise<AsrModel> {
  const { vadFolder } = context;
  // Before the larger one, so that its errors appear at once.
  const voiceActivity = vadFolder === undefined ? undefined : await VoiceActivity.load(vadFolder);
  const model = await load(context);
  if (voiceActivity !== undefined) await model.listenFor(voiceActivity);
  return model;
}
