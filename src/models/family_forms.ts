/**
 * Shared parts of families: speech recognition, speech synthesis, and the graphs of decoders.
 *
 * @module
 */
import { basename } from "node:path";
import { StartupError } from "../errors.ts";
import { hubIdOfSnapshot } from "../hub/cache.ts";
import { dtypesOf, type ModelFolder } from "../hub/model_folder.ts";
import { type Family, hasGraph, isBuiltAs, isOfType } from "./family.ts";
import { allGraphs, type WantedGraph } from "./graph_choice.ts";
import type { ASR_LOADERS, SYNTHESIZERS } from "./loaders.ts";

const MERGED = "decoder_model_merged";
/** Files of voices. */
const VOICES = /^(voices\/|speaker_embeddings\.bin$|default_voice\.wav$)/;

/** The differences between families of speech recognition models. */
export interface AsrOptions extends Pick<Family, "graphs" | "files"> {
  readonly loader: keyof typeof ASR_LOADERS;
}

/** A family of speech recognition models, recognised by its types. */
export function asr(
  name: string,
  types: readonly string[],
  { loader, ...files }: AsrOptions,
): Family {
  return {
    name,
    kind: "asr",
    matches: (folder) => isOfType(folder, ...types),
    ...files,
    open: (context, { openAsr }) => openAsr(loader, context),
  };
}

/** The differences between families of speech synthesis models. */
export interface TtsOptions {
  /** Its graphs; all in the folder, in precisions that suit sound, if absent. */
  readonly graphs?: Family["graphs"];
  /** Whether it uses speaker embeddings. */
  readonly hasSpeakerEncoder?: boolean;
}

/** A family of speech synthesis models, recognised by its type. */
export function tts(
  type: keyof typeof SYNTHESIZERS,
  { graphs = soundGraphs, hasSpeakerEncoder = false }: TtsOptions = {},
): Family {
  return {
    name: type,
    kind: "tts",
    matches: (folder) => isOfType(folder, type),
    graphs,
    files: VOICES,
    open: async (context, { openTts }) => {
      if (context.speakerEncoderFolder !== undefined && !hasSpeakerEncoder) {
        throw new StartupError(
          `A speaker encoder is for SpeechT5, and ${context.folder.path} is a speech model of type "${type}".`,
          { setting: "speakerEncoderFolder" },
        );
      }
      return await openTts(type, context);
    },
  };
}

function soundGraphs(folder: ModelFolder): WantedGraph[] {
  return allGraphs(MERGED)(folder).map((graph) => ({ ...graph, suits: "sound" }));
}

/** The graphs of a decoder, and of its embeddings if separate. */
export function textGraphs(folder: ModelFolder): WantedGraph[] {
  const has = (name: string) => dtypesOf(folder, name).length > 0;
  const main = { name: !has("model") && has(MERGED) ? MERGED : "model" };
  const needsEmbeddings = main.name === MERGED && has("embed_tokens");
  return needsEmbeddings ? [main, { name: "embed_tokens" }] : [main];
}

/** The same, and the one that encodes images. */
export function visionGraphs(folder: ModelFolder): WantedGraph[] {
  return [...textGraphs(folder), { name: "vision_encoder" }];
}

/** A vision-language decoder, unlike an encoder-decoder for images. */
export function isVisionLanguageModel(folder: ModelFolder): boolean {
  return hasGraph(folder, "vision_encoder") && !hasGraph(folder, "encoder_model");
}

/**
 * Language models trained to embed or rerank keep their architecture; they are recognised by name, and by a single
 * graph that takes tokens.
 */
export function isDecoderFor(folder: ModelFolder, kind: "embedding" | "rerank"): boolean {
  const { path } = folder;
  const name = hubIdOfSnapshot(path)?.name ?? basename(path);
  const isNamed = kind === "rerank" ? /rerank/i.test(name) : /embed/i.test(name);
  return isNamed && isBuiltAs(folder, /ForCausalLM$/) &&
    !hasGraph(folder, "vision_encoder") && !hasGraph(folder, MERGED);
}
