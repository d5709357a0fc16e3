/**
 * Chooses tokens on a GPU.
 *
 * @module
 */
import { SampleKernel, type SamplerOptions } from "../../../kernels/sample/sample.ts";
import type { SampledToken } from "../../../kernels/sample/sample_row.ts";
import type { GpuContext } from "../../gpu/device.ts";
import type { Readback } from "../../gpu/readback.ts";
import type { LogitRows, TokenSampler } from "../backend.ts";
import { SampledTokens } from "../sampled_tokens.ts";

/** What it works with. */
interface WebGpuSamplerOptions {
  readonly readback: Readback;
  readonly kernel: SamplerOptions;
}

export class WebGpuSampler implements TokenSampler {
  readonly #gpu: GpuContext;
  readonly #options: WebGpuSamplerOptions;
  /** One for each part of a step: their results are read together. */
  readonly #kernels: SampleKernel[] = [];

  constructor(gpu: GpuContext, options: WebGpuSamplerOptions) {
    this.#gpu = gpu;
    this.#options = options;
    this.#kernels.push(new SampleKernel(gpu, options.kernel));
  }

  async sample(parts: Iterable<LogitRows> | AsyncIterable<LogitRows>): Promise<SampledToken[]> {
    const numRows: number[] = [];
    for await (const { logits, rows } of parts) {
      const kernel = this.#getKernel(numRows.length);
      numRows.push(rows.length);
      kernel.write(rows);
      kernel.encode(this.#gpu.commands, logits.gpuBuffer as GPUBuffer);
    }
    if (numRows.length === 0) return [];
    const used = numRows.map((count, part) => ({ count, kernel: this.#getKernel(part) }));
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
  }

  dispose(): void {
    for (const kernel of this.#kernels) kernel.dispose();
  }

  #getKernel(part: number): SampleKernel {
    return this.#kernels[part] ??= new SampleKernel(this.#gpu, this.#options.kernel);
  }
}
