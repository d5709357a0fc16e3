/**
 * From a folder of any speech model to one that transcribes.
 *
 * @module
 */
import { StartupError } from "../../errors.ts";
import type { AsrLoadOptions, AsrModel } from "./asr.ts";
import { loadCtc } from "./ctc_load.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import {
  describeCohere,
  type DescribeFamily,
  describeGranite,
  describeMoonshine,
  describeVoxtral,
} from "./generating_families.ts";
import { loadGenerating } from "./generating_load.ts";
import { VoiceActivity } from "./voice_activity.ts";
import { loadWhisper } from "./whisper_load.ts";

type Load = (folder: ModelFolder, options: AsrLoadOptions) => Promise<AsrModel>;

function generating(describe: DescribeFamily): Load {
  return async (folder, options) =>
    await loadGenerating(folder, { ...options, family: await describe(folder) });
}

/** By `model_type`. */
const LOADERS: Readonly<Record<string, Load>> = {
  whisper: loadWhisper,
  "lite-whisper": loadWhisper,
  moonshine: generating(describeMoonshine),
  cohere_asr: generating(describeCohere),
  granite_speech: generating(describeGranite),
  voxtral: generating(describeVoxtral),
  wav2vec2: loadCtc,
  "wav2vec2-bert": loadCtc,
  wavlm: loadCtc,
  hubert: loadCtc,
  unispeech: loadCtc,
  "unispeech-sat": loadCtc,
  parakeet_ctc: loadCtc,
};

/**
 * Loads a speech model.
 *
 * @param options.vadFolder folder of a model that tells speech from silence; all is listened to if absent.
 * @throws {StartupError} when the folder is of no type that is served, or one of the two lacks a part.
 */
export async function loadAsr(
  folder: ModelFolder,
  { vadFolder, ...options }: AsrLoadOptions & { readonly vadFolder?: string | undefined },
): Promise<AsrModel> {
  const type = String(folder.config["model_type"]);
  const load = LOADERS[type];
  if (load === undefined) {
    throw new StartupError(
      `${folder.path} is a speech model of type ${type}; this version of Hearth serves ${
        Object.keys(LOADERS).join(", ")
      }.`,
    );
  }
  // Before the larger one: what is wrong with it shows at once.
  const voiceActivity = vadFolder === undefined ? undefined : await VoiceActivity.load(vadFolder);
  const model = await load(folder, options);
  if (voiceActivity !== undefined) await model.listenFor(voiceActivity);
  return model;
}
