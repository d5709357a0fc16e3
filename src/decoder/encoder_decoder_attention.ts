/**
 * The attentions of a decoder that looks at an encoder: to its own tokens over the paged cache, and to what the encoder
 * made.
 *
 * @module
 */
import type { PackedStep } from "../../kernels/step_plan.ts";
import type { AttentionOptions, Backend, PagedAttention } from "../backend/backend.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "../backend/cross_alignment.ts";
import type { CrossAttention, CrossTensors } from "../backend/cross_attention.ts";
import type { AttentionSite } from "../onnx/graph_cut.ts";
import type { Tensor } from "../onnx/ort.ts";

/** How to open them. */
export interface EncoderDecoderOptions extends AttentionOptions {
  readonly backend: Backend;
  /** Whether a site attends to the encoder. */
  readonly isCross: (site: AttentionSite) => boolean;
  /** Places of the encoder's output. */
  readonly numPlaces: number;
  /** Most inputs that are kept in one call. */
  readonly maxInputs: number;
}

/** Where queries go. */
export interface QueryTaking {
  readonly alignment: CrossAlignment;
  /** Place of the step's first token in its text. */
  readonly firstToken: number;
}

/**
 * See the module. The blocks of the paged cache are dealt out by slot: `maxBlocksPerSequence` to each, in order, so
 * that a sequence's first block tells its slot.
 */
export class EncoderDecoderAttention implements PagedAttention {
  readonly #own: PagedAttention;
  readonly #cross: CrossAttention;
  /** By site: which of the two, and its place there. */
  readonly #places: readonly { readonly isCross: boolean; readonly layer: number }[];
  readonly #sites: readonly AttentionSite[];
  #taking: QueryTaking | undefined;

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor({ backend, isCross, numPlaces, maxInputs, ...options }: EncoderDecoderOptions) {
    const { sites, maxTokens, maxSequences } = options;
    const own = sites.filter((site) => !isCross(site));
    const cross = sites.filter(isCross);
    this.#sites = sites;
    this.#places = sites.map((site) =>
      isCross(site)
        ? { isCross: true, layer: cross.indexOf(site) }
        : { isCross: false, layer: own.indexOf(site) }
    );
    this.#own = backend.openAttention({ ...options, sites: own });
    this.#cross = backend.openCrossAttention({
      sites: cross,
      numPlaces,
      numSlots: maxSequences,
      maxInputs,
      maxTokens,
    });
  }

  /** Keeps the keys and values of a site to the encoder, by the site's place in the cut. */
  keep(site: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#places[site]!.layer, tensors, slots);
  }

  /** What tells how texts lie along what the encoder made. It is the caller's. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    return this.#cross.openAlignment(options);
  }

  /** Says where the queries to the encoder of the steps to come go, beside what is done with them; nowhere if absent. */
  takeQueries(taking?: QueryTaking): void {
    this.#taking = taking;
  }

  begin(step: PackedStep): void {
    this.#own.begin(step);
    this.#cross.begin(slotsOf(step));
  }

  run(
    site: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
  ): Tensor | Promise<Tensor> {
    const { isCross, layer } = this.#places[site]!;
    if (!isCross) return this.#own.run(layer, tensors, output);
    if (this.#taking !== undefined) {
      const { alignment, firstToken } = this.#taking;
      alignment.take(layer, tensors.get(this.#sites[site]!.q.tensor)!, firstToken);
    }
    return this.#cross.run(layer, tensors, output);
  }

  dispose(): void {
    this.#own.dispose();
    this.#cross.dispose();
  }
}

/** The slot of each token. */
function slotsOf(step: PackedStep): number[] {
  const { sequences, queryStarts, blockTables, maxBlocksPerSequence } = step;
  const slots: number[] = [];
  for (let s = 0; s < sequences.length; s++) {
    const slot = blockTables[s * maxBlocksPerSequence]! / maxBlocksPerSequence;
    for (let token = queryStarts[s]!; token < queryStarts[s + 1]!; token++) slots.push(slot);
  }
  return slots;
}
