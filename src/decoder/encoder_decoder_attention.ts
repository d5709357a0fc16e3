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
  /** Most places of the encoder's output for one input. */
  readonly numPositions: number;
  /** Inputs whose keys and values are kept at a time. */
  readonly numSlots: number;
  /** Most inputs that are kept in one call. */
  readonly maxInputs: number;
}

/** Where queries go. */
export interface QueryTaking {
  readonly alignment: CrossAlignment;
  /** Place of the step's first token in its text. */
  readonly firstToken: number;
}

export class EncoderDecoderAttention implements PagedAttention {
  readonly #own: PagedAttention;
  readonly #cross: CrossAttention;
  /** By site: which of the two, and its place there. */
  readonly #layers: readonly { readonly isCross: boolean; readonly layer: number }[];
  readonly #sites: readonly AttentionSite[];
  #taking: QueryTaking | undefined;
  #slots: readonly number[] = [];

  /** @throws {RangeError} when the kernels cannot run a site's shape. */
  constructor(
    { backend, isCross, numPositions, numSlots, maxInputs, ...options }: EncoderDecoderOptions,
  ) {
    const { sites, maxTokens } = options;
    const own = sites.filter((site) => !isCross(site));
    const cross = sites.filter(isCross);
    this.#sites = sites;
    this.#layers = sites.map((site) =>
      isCross(site)
        ? { isCross: true, layer: cross.indexOf(site) }
        : { isCross: false, layer: own.indexOf(site) }
    );
    this.#own = backend.openAttention({ ...options, sites: own });
    this.#cross = backend.openCrossAttention({
      sites: cross,
      numPositions,
      numSlots,
      maxInputs,
      maxTokens,
    });
  }

  /** Keeps the keys and values of a site to the encoder, by the site's place in the cut. */
  keep(site: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#layers[site]!.layer, tensors, slots);
  }

  /** What tells how texts lie along what the encoder made. It is the caller's. */
  openAlignment(options: CrossAlignmentOptions): CrossAlignment {
    return this.#cross.openAlignment(options);
  }

  /** Says where the queries to the encoder of the steps to come go, beside what is done with them; nowhere if absent. */
  takeQueries(taking?: QueryTaking): void {
    this.#taking = taking;
  }

  /** Says in which slots is what the sequences of the next step attend to. */
  useSlots(slots: readonly number[]): void {
    this.#slots = slots;
  }

  begin(step: PackedStep): void {
    this.#own.begin(step);
    const { queryStarts } = step;
    this.#cross.begin(
      this.#slots.flatMap((slot, s) =>
        new Array<number>(queryStarts[s + 1]! - queryStarts[s]!).fill(slot)
      ),
    );
  }

  run(
    site: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
  ): Tensor | Promise<Tensor> {
    const { isCross, layer } = this.#layers[site]!;
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
