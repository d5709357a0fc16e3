/**
 * Runs uncut graphs for tests, as the reference for cut ones.
 *
 * @module
 */
import { type GraphSession, Tensor, type Tensors } from "../../../src/device/ort/ort.ts";
import { openCpuSession } from "./cpu_session.ts";
import { SIZES } from "./test_decoder.ts";

/** A whole decoder graph, which runs one sequence at a time and starts over with each call. */
export class WholeGraph implements AsyncDisposable {
  readonly #session: GraphSession;
  readonly #cachePast: Tensors;

  private constructor(session: GraphSession) {
    this.#session = session;
    this.#cachePast = Object.fromEntries(
      session.inputs.filter(({ name }) => name.startsWith("past")).map(({ name, type, shape }) => {
        const [, ...sizes] = shape;
        const isState = sizes.every((size) => typeof size === "number");
        const dims = isState
          ? [1, ...sizes as number[]]
          : shape.length === 3
          ? [SIZES.heads, ...sizes.map((size) => typeof size === "number" ? size : 0)]
          : [1, sizes[0] as number, 0, sizes[2] as number];
        const length = dims.reduce((product, size) => product * size, 1);
        const data = type === "float16"
          ? new Float16Array(length) as unknown as Uint16Array
          : new Float32Array(length);
        return [name, new Tensor(type as "float32", data as Float32Array, dims)];
      }),
    );
  }

  /** Opens a graph with inline weights. */
  static async open(model: Uint8Array): Promise<WholeGraph> {
    return new WholeGraph(await openCpuSession(model));
  }

  /**
   * Computes the output's rows for a sequence, which is given in chunks of token ids or of rows of embeddings.
   *
   * @param output name of the output.
   */
  async run(
    chunks: readonly (readonly number[] | readonly Float32Array[])[],
    output = "logits",
  ): Promise<Float32Array[]> {
    let cache = this.#cachePast;
    let past = 0;
    const rows: Float32Array[] = [];
    for (const chunk of chunks) {
      const total = past + chunk.length;
      const candidates: Record<string, Tensor> = {
        attention_mask: new Tensor("int64", new BigInt64Array(total).fill(1n), [1, total]),
        position_ids: this.#positions(past, chunk.length),
        num_logits_to_keep: new Tensor("int64", BigInt64Array.of(0n), []),
        ...cache,
      };
      if (typeof chunk[0] === "number") {
        const ids = BigInt64Array.from(chunk as number[], BigInt);
        candidates["input_ids"] = new Tensor("int64", ids, [1, chunk.length]);
      } else {
        const embeddings = Float32Array.from((chunk as Float32Array[]).flatMap((row) => [...row]));
        candidates["inputs_embeds"] = new Tensor("float32", embeddings, [
          1,
          chunk.length,
          embeddings.length / chunk.length,
        ]);
      }
      const feeds = Object.fromEntries(
        this.#session.inputs.map(({ name }) => [name, candidates[name]!]),
      );
      const results = await this.#session.run(feeds);
      cache = Object.fromEntries(
        Object.keys(cache).map((name) => [
          name,
          (results[name.replace("past_key_values", "present")] ??
            results[name.replace("past", "present")])!,
        ]),
      );
      const logits = results[output]!;
      const width = logits.dims.at(-1)!;
      const data = logits.data as Float32Array;
      for (let i = 0; i < chunk.length; i++) {
        rows.push(Float32Array.from(data.subarray(i * width, (i + 1) * width)));
      }
      past = total;
    }
    return rows;
  }

  /** Makes positions from `past` on, repeated for each section if the input has sections. */
  #positions(past: number, count: number): Tensor {
    const shape = this.#session.inputs.find(({ name }) => name === "position_ids")?.shape ?? [];
    const sections = shape.length === 3 ? [shape[0] as number] : [];
    const data = BigInt64Array.from(
      { length: count * (sections[0] ?? 1) },
      (_, i) => BigInt(past + i % count),
    );
    return new Tensor("int64", data, [...sections, 1, count]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#session.release();
  }
}
