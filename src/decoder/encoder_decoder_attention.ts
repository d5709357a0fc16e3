/**
 * The attentions of an encoder-decoder's decoder: self-attention over the paged cache, and cross-attention.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type {
  AttentionOptions,
  AttentionStep,
  LayoutConstants,
  PagedAttention,
  RecordAttention,
} from "../device/paged_attention.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "../device/cross_alignment.ts";
import type { CrossAttention, CrossTensors } from "../device/cross_attention.ts";
import type { OperandLayout } from "../program/program.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import type { Tensor } from "../device/ort/ort.ts";

/** How to open them. */
interface EncoderDecoderOptions extends AttentionOptions {
  readonly backend: Backend;
  /** Whether a node attends to the encoder. */
  readonly isCross: (node: AttentionNode) => boolean;
  /** Most positions of the encoder's output for one input. */
  readonly numPositions: number;
  /** Most inputs whose keys and values are kept at once. */
  readonly numSlots: number;
  /** Most inputs kept in one call. */
  readonly maxInputs: number;
}

/** Where cross-attention queries are copied for alignment. */
interface QueryCapture {
  readonly alignment: CrossAlignment;
  /** Position of the step's first token in its text. */
  readonly firstToken: number;
}

export class EncoderDecoderAttention implements PagedAttention {
  readonly #own: PagedAttention;
  readonly #cross: CrossAttention;
  /** Self- or cross-attention of each node, and its index there. */
  readonly #layers: readonly { readonly isCross: boolean; readonly layer: number }[];
  readonly #nodes: readonly AttentionNode[];
  #capture: QueryCapture | undefined;

  /** @throws {RangeError} when the kernels cannot run a node's shape. */
  constructor(
    { backend, isCross, numPositions, numSlots, maxInputs, ...options }: EncoderDecoderOptions,
  ) {
    const { nodes, maxTokens } = options;
    const own = nodes.filter((node) => !isCross(node));
    const cross = nodes.filter(isCross);
    this.#nodes = nodes;
    this.#layers = nodes.map((node) =>
      isCross(node)
        ? { isCross: true, layer: cross.indexOf(node) }
        : { isCross: false, layer: own.indexOf(node) }
    );
    this.#own = backend.openAttention({ ...options, nodes: own });
    this.#cross = backend.openCrossAttention({
      nodes: cross,
      numPositions,
      numSlots,
      maxInputs,
      maxTokens,
    });
  }

  /** Keeps the keys and values of a cross-attention node, by the node's index in the cut. */
  keep(node: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#layers[node]!.layer, tensors, slots);
  }

  /** The aligner of texts with the encoder's output. The caller owns it. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    return this.#cross.openAlignment(options);
  }

  /** Sets where cross-attention queries of the next steps are copied to; nowhere if absent. */
  captureQueries(capture?: QueryCapture): void {
    this.#capture = capture;
  }

  begin(step: AttentionStep): void {
    this.#own.begin(step);
    const { queryStarts } = step;
    this.#cross.begin(
      step.sequences.flatMap(({ encoderSlot }, s) =>
        new Array<number>(queryStarts[s + 1]! - queryStarts[s]!).fill(encoderSlot!)
      ),
    );
  }

  run(
    node: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
  ): Tensor | Promise<Tensor> {
    const { isCross, layer } = this.#layers[node]!;
    if (!isCross) return this.#own.run(layer, tensors, output);
    if (this.#capture !== undefined) {
      const { alignment, firstToken } = this.#capture;
      alignment.take(layer, tensors.get(this.#nodes[node]!.q.tensor)!, firstToken);
    }
    return this.#cross.run(layer, tensors, output);
  }

  /** The encoder's keys are in their cache already. */
  takesLayout(node: number): boolean {
    const { isCross, layer } = this.#layers[node]!;
    return !isCross && (this.#own.takesLayout?.(layer) ?? false);
  }

  openLayout(layout: OperandLayout, constants: LayoutConstants): RecordAttention {
    return this.#own.openLayout!(
      { ...layout, layer: this.#layers[layout.layer]!.layer },
      constants,
    );
  }

  dispose(): void {
    this.#own.dispose();
    this.#cross.dispose();
  }
}
