/**
 * SpeechT5's decoder as Optimum exports it, merged of two, with its keys and values on the device.
 *
 * Of the merged graph two are made: one projects the encoder's output to keys and values, once per text, and the
 * other adds frames with all keys and values so far.
 *
 * @module
 */
import { emptyCache, pickCache, requireMerged } from "../../decoder/merged_graphs.ts";
import { yieldToEvents } from "../../base/yield_to_events.ts";
import { isCrossCache } from "../../graph/cut/cache_names.ts";
import { disposeTensors, type Tensors } from "../../device/ort/ort.ts";
import { MERGED } from "../folder/graph_choice.ts";
import type { OpenContext } from "../folder/open_context.ts";
import { type Feed, type Feeds, freeFeed, TtsGraph } from "./tts_graph.ts";

const KNOWN =
  /^(output_sequence|encoder_hidden_states|encoder_attention_mask|speaker_embeddings|past_key_values\..*)$/;
/** Stop probability at which the sound ends. */
const STOP_PROBABILITY = 0.5;

export class MelDecoder {
  readonly #project: TtsGraph;
  readonly #step: TtsGraph;
  readonly #melBins: number;
  readonly #selfInputs: TtsGraph["inputs"];
  readonly #crossInputs: readonly string[];

  private constructor(graphs: { project: TtsGraph; step: TtsGraph }, melBins: number) {
    this.#project = graphs.project;
    this.#step = graphs.step;
    this.#melBins = melBins;
    const cached = graphs.step.inputs.filter(({ name }) => name.startsWith("past_key_values."));
    this.#selfInputs = cached.filter(({ name }) => !isCrossCache(name));
    this.#crossInputs = cached.map(({ name }) => name).filter(isCrossCache);
  }

  /** @throws {StartupError} when the graph is not as Optimum exports it. */
  static async open(context: OpenContext, melBins: number): Promise<MelDecoder> {
    const { path } = context.graphs.of(MERGED);
    const open = (graph: "project" | "step") =>
      TtsGraph.open(context, {
        name: MERGED,
        known: KNOWN,
        change: (model) => requireMerged(model, path)[graph],
      });
    const [project, step] = [await open("project"), await open("step")];
    return new MelDecoder({ project, step }, melBins);
  }

  /**
   * Decodes a text, some frames at a step.
   *
   * @param encoded the encoder's output, which stays the caller's.
   * @returns f32 `[frames, melBins]`.
   * @throws the signal's reason.
   */
  async decode(
    encoded: Tensors,
    { speaker, maxSteps, noiseOffset, signal }: {
      /** f32 `[width]`. */
      readonly speaker: Float32Array;
      /** Most steps, for a decoder that does not stop; at least one is taken. */
      readonly maxSteps: number;
      /** Offset of the noise in its first layers; each step has its own. */
      readonly noiseOffset: number;
      readonly signal: AbortSignal;
    },
  ): Promise<Float32Array> {
    const given: Feeds = {
      encoder_hidden_states: encoded["encoder_outputs"]!,
      encoder_attention_mask: encoded["encoder_attention_mask"]!,
      speaker_embeddings: { values: speaker, dims: [1, speaker.length] },
    };
    const cross = pickCache(await this.#project.run(given), this.#crossInputs);
    const selfNames = this.#selfInputs.map(({ name }) => name);
    let self: Tensors = emptyCache(this.#selfInputs, 1);
    let sequence: Feed = { values: new Float32Array(this.#melBins), dims: [1, 1, this.#melBins] };
    const mel: Float32Array[] = [];
    try {
      for (let step = 0, hasStopped = false; !hasStopped && step < Math.max(1, maxSteps); step++) {
        await yieldToEvents();
        signal.throwIfAborted();
        const feeds = { ...given, ...cross, ...self, output_sequence: sequence };
        const outputs = await this.#step.run(feeds, { offset: noiseOffset + step });
        disposeTensors(self);
        freeFeed(sequence);
        self = pickCache(outputs, selfNames);
        sequence = outputs["output_sequence_out"]!;
        const stops = await this.#step.take(outputs, "prob");
        hasStopped = stops.some((probability) => probability >= STOP_PROBABILITY);
        mel.push(await this.#step.take(outputs, "spectrum"));
      }
    } finally {
      disposeTensors(self);
      disposeTensors(cross);
      freeFeed(sequence);
    }
    return Float32Array.from(mel.flatMap((frames) => [...frames]));
  }

  /** Frees the weights. */
  async release(): Promise<void> {
    await this.#project.release();
    await this.#step.release();
  }
}
