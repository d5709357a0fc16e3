/**
 * Chooses tokens on a GPU.
 *
 * @module
 */
import { SampleKernel, type SamplerOptions } from "../../../kernels/sample/sample.ts";
import { type SampledToken, SampledTokens } from "../../../kernels/sample/sample_row.ts";
import type { GpuContext } from "../../gpu/device.ts";
import type { Readback } from "../../gpu/readback.ts";
import type { LogitRows, TokenSampler } from "../backend.ts";

/** What a sampler needs. */
interface WebGpuSamplerOptions {
  readonly readback: Readback;
  readonly kernel: SamplerOptions;
}

export class WebGpuSampler implements TokenSampler {
  readonly #gpu: GpuContext;
  readonly #options: WebGpuSamplerOptions;
  /** Kernels that no step uses, the most recently used one last. */
  readonly #free: SampleKernel[] = [];

  constructor(gpu: GpuContext, options: WebGpuSamplerOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#free.push(new SampleKernel(gpu, options.kernel));
  }

  async sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<SampledToken[]> {
    // One kernel for each part of the step, whose results are read together.
    const used: { readonly kernel: SampleKernel; readonly count: number }[] = [];
    try {
      for await (const { logits, rows } of parts) {
        const kernel = this.#free.pop() ?? new SampleKernel(this.#gpu, this.#options.kernel);
        used.push({ kernel, count: rows.length });
        kernel.write(rows);
        kernel.encode(this.#gpu.commands, logits.gpuBuffer as GPUBuffer);
      }
      if (used.length === 0) return [];
      const ranges = used.map(({ kernel }) => kernel.results());
      const bytes = await this.#options.readback.readRecorded(ranges.flat());
      const tokens = new SampledTokens();
      let end = 0;
      used.forEach(({ count, kernel }, part) => {
        const start = end;
        for (const { size } of ranges[part]!) end += size;
        tokens.add(count, () => kernel.decode(bytes.subarray(start, end)));
      });
      return tokens.finish();
    } finally {
      for (const { kernel } of used.reverse()) this.#free.push(kernel);
    }
  }

  dispose(): void {
    for (const kernel of this.#free) kernel.dispose();
  }
}
