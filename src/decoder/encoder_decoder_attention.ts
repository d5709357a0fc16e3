/**
 * The attentions of an encoder-decoder's decoder: self-attention over the paged cache, and cross-attention.
 *
 * @module
 */
import type { Backend } from "../device/backend.ts";
import type {
  AttentionForm,
  AttentionOptions,
  AttentionStep,
  FormConstants,
  PagedAttention,
} from "../device/paged_attention.ts";
import type { CrossAlignment, CrossAlignmentOptions } from "../device/cross_alignment.ts";
import type { CrossAttention, CrossTensors } from "../device/cross_attention.ts";
import type { SiteForm } from "../program/program.ts";
import type { AttentionSite } from "../graph/graph_cut.ts";
import type { Tensor } from "../device/ort/ort.ts";

/** How to open them. */
interface EncoderDecoderOptions extends AttentionOptions {
  readonly backend: Backend;
  /** Whether a site attends to the encoder. */
  readonly isCross: (site: AttentionSite) => boolean;
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
  /** Self- or cross-attention of each site, and its index there. */
  readonly #layers: readonly { readonly isCross: boolean; readonly layer: number }[];
  readonly #sites: readonly AttentionSite[];
  #capture: QueryCapture | undefined;

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

  /** Keeps the keys and values of a cross-attention site, by the site's index in the cut. */
  keep(site: number, tensors: CrossTensors, slots: readonly number[]): void {
    this.#cross.keep(this.#layers[site]!.layer, tensors, slots);
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
    site: number,
    tensors: ReadonlyMap<string, Tensor>,
    output: Tensor | undefined,
  ): Tensor | Promise<Tensor> {
    const { isCross, layer } = this.#layers[site]!;
    if (!isCross) return this.#own.run(layer, tensors, output);
    if (this.#capture !== undefined) {
      const { alignment, firstToken } = this.#capture;
      alignment.take(layer, tensors.get(this.#sites[site]!.q.tensor)!, firstToken);
    }
    return this.#cross.run(layer, tensors, output);
  }

  /** The encoder's keys are in their cache already. */
  takesForm(site: number): boolean {
    const { isCross, layer } = this.#layers[site]!;
    return !isCross && (this.#own.takesForm?.(layer) ?? false);
  }

  openForm(form: SiteForm, constants: FormConstants): AttentionForm {
    return this.#own.openForm!({ ...form, layer: this.#layers[form.layer]!.layer }, constants);
  }

  dispose(): void {
    this.#own.dispose();
    this.#cross.dispose();
  }
}
