/**
 * Attention in an encoder-decoder's decoder: self-attention over the paged cache, and cross-attention.
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
} from "../device/attention.ts";
import type {
  CrossAlignment,
  CrossAlignmentOptions,
  CrossAttention,
  CrossTensors,
} from "../device/encoder_attention.ts";
import type { OperandLayout } from "../program/program.ts";
import type { AttentionNode } from "../graph/graph_cut.ts";
import type { Tensor } from "../device/ort/ort.ts";

/** Options of this attention. */
interface EncoderDecoderOptions extends AttentionOptions {
  readonly backend: Backend;
  /** Whether a node attends to the encoder. */
  readonly isCross: (node: AttentionNode) => boolean;
  /** Most positions in the encoder's output for one input. */
  readonly numPositions: number;
  /** Most inputs whose keys and values are cached at once. */
  readonly numSlots: number;
  /** Most inputs that are added in one call. */
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
  /** Whether each node is self- or cross-attention, and its index among the nodes of that kind. */
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

  /** Caches the keys and values of a cross-attention node. @param node index of the node in the cut. */
  keep(node: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#layers[node]!.layer, tensors, slots);
  }

  /** Opens the alignment of texts with the encoder's output. The caller owns it. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    return this.#cross.openAlignment(options);
  }

  /** Sets where the cross-attention queries of the next steps are copied; if absent, they are not. */
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

  /** The encoder's keys are already in their cache. */
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
