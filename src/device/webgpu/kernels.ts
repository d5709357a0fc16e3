/**
 * Runs programs on a GPU. The dispatches of Hearth's kernels are recorded layer after layer for a single submit.
 *
 * @module
 */
import { Matvec } from "../../../kernels/matmul/matvec.ts";
import { chooseMatvecTiling, roomForRows } from "../../../kernels/matmul/matvec_params.ts";
import { Norm, Pointwise, TakeRows } from "../../../kernels/rows/row_kernels.ts";
import { formatBytes } from "../../base/bytes.ts";
import { StartupError } from "../../base/errors.ts";
import type { ComputePass } from "../../gpu/commands.ts";
import { createStorage, type GpuContext } from "../../gpu/device.ts";
import {
  type Dispatch,
  listTensors,
  type OperandLayout,
  type Program,
} from "../../program/program.ts";
import type { ModelFiles } from "../../graph/file/external_data.ts";
import { readFloats } from "../../graph/file/stored_range.ts";
import type { StoredTensor } from "../../graph/file/tensor.ts";
import type { HeadRows } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import type { KernelExecutor, KernelsOptions, KernelStep } from "../backend.ts";
import type { LayoutConstants } from "../attention.ts";

/** A kernel that is recorded on buffers by their roles. */
interface RowKernel {
  encode(pass: ComputePass, buffers: never, numRows: number): void;
}

/** Records one dispatch for some rows. `outside` are the step's input tensors. */
type Recorder = (
  pass: ComputePass,
  numRows: number,
  outside: ReadonlyMap<string, Tensor>,
) => void;

/** Runs programs. The caller owns the weights. */
export class WebGpuKernels implements KernelExecutor {
  readonly #gpu: GpuContext;
  readonly #options: KernelsOptions;
  readonly #programs = new Map<Program, readonly Recorder[]>();
  /** Kernels by their parameters: most layers have equal parameters, and share kernels. */
  readonly #kernels = new Map<string, RowKernel>();
  readonly #attentions = new Map<OperandLayout, () => void>();
  /**
   * Scratch buffers by position in a program and size, for each group of programs with the same buffers between
   * segments. Programs of one group share scratch, because they run one after another. Programs of another group may
   * run while they are suspended.
   */
  readonly #scratch = new Map<ReadonlyMap<string, GPUBuffer>, Map<string, GPUBuffer>>();
  /** Inputs of the cut that are on the host, by name. `tensor` is the tensor that was uploaded to `buffer`. */
  readonly #uploads = new Map<string, { readonly buffer: GPUBuffer; tensor: Tensor | undefined }>();

  private constructor(gpu: GpuContext, options: KernelsOptions) {
    this.#gpu = gpu;
    this.#options = options;
  }

  /**
   * Prepares the dispatches, and uploads the weights that they read.
   *
   * @throws {RangeError} when attention does not support the layout of its operands.
   * @throws {StartupError} when the rows of a step exceed the device's buffers.
   */
  static async open(gpu: GpuContext, options: KernelsOptions): Promise<WebGpuKernels> {
    const { programs, weights, files } = options;
    await weights!.upload(programs.flatMap((program) => program.weights));
    const constants = await readConstants(programs.flatMap(({ layouts }) => layouts), files);
    const kernels = new WebGpuKernels(gpu, options);
    for (const program of programs) {
      kernels.#programs.set(program, kernels.#openDispatches(program));
      kernels.#openAttentions(program, constants);
    }
    return kernels;
  }

  get isExact(): boolean {
    return this.#kernels.values().every((kernel) => !(kernel instanceof Matvec) || kernel.isExact);
  }

  run(program: Program, { numRows, tensors }: KernelStep): void {
    const pass = this.#gpu.commands;
    for (const record of this.#programs.get(program)!) record(pass, numRows, tensors);
  }

  attend(layout: OperandLayout): void {
    this.#attentions.get(layout)!();
  }

  dispose(): void {
    for (const buffers of this.#scratch.values()) {
      for (const buffer of buffers.values()) buffer.destroy();
    }
    for (const { buffer } of this.#uploads.values()) buffer.destroy();
  }

  #openAttentions(program: Program, constants: ReadonlyMap<number, LayoutConstants>): void {
    const { attention, getBuffers, attentionOutputs } = this.#options;
    const crossing = getBuffers(program);
    const scratch = this.#getScratch(program);
    for (const layout of program.layouts) {
      const attend = attention.openLayout!(layout, constants.get(layout.layer)!);
      const getBuffer = ({ tensor }: HeadRows) => scratch.get(tensor) ?? crossing.get(tensor)!;
      const [q, k, v] = [layout.q, layout.k, layout.v].map(getBuffer) as [
        GPUBuffer,
        GPUBuffer,
        GPUBuffer,
      ];
      const buffers = { q, k, v, out: crossing.get(attentionOutputs[layout.layer]!)! };
      this.#attentions.set(layout, () => attend(buffers));
    }
  }

  #getScratch(program: Program): Map<string, GPUBuffer> {
    const numRows = roomForRows(this.#options.countMaxRows(program));
    const crossing = this.#options.getBuffers(program);
    const buffers = this.#scratch.get(crossing) ?? new Map<string, GPUBuffer>();
    this.#scratch.set(crossing, buffers);
    return new Map([...program.scratch].map(([name, rowBytes], position) => {
      const key = `${position}: ${rowBytes} x ${numRows}`;
      let buffer = buffers.get(key);
      if (buffer === undefined) {
        requireBinding(this.#gpu, rowBytes * numRows);
        buffer = createStorage(this.#gpu, "scratch", rowBytes * numRows);
        buffers.set(key, buffer);
      }
      return [name, buffer];
    }));
  }

  /** The buffer of an input of the cut. Numbers that ONNX Runtime reads on the host are uploaded once per step. */
  #getBuffer(name: string, tensor: Tensor): GPUBuffer {
    if (tensor.location === "gpu-buffer") return tensor.gpuBuffer as GPUBuffer;
    let upload = this.#uploads.get(name);
    if (upload === undefined) {
      const buffer = createStorage(
        this.#gpu,
        name,
        this.#options.maxRows * BigInt64Array.BYTES_PER_ELEMENT,
      );
      this.#uploads.set(name, upload = { buffer, tensor: undefined });
    }
    if (upload.tensor !== tensor) {
      upload.tensor = tensor;
      const data = tensor.data as BigInt64Array<ArrayBuffer>;
      this.#gpu.device.queue.writeBuffer(upload.buffer, 0, data);
    }
    return upload.buffer;
  }

  #openDispatches(program: Program): Recorder[] {
    const scratch = this.#getScratch(program);
    const { getBuffers, weights, countMaxRows } = this.#options;
    const crossing = getBuffers(program);
    const maxRows = countMaxRows(program);
    const constants = new Set(program.weights.map(({ name }) => name));
    const getBuffer = (name: string) =>
      scratch.get(name) ?? crossing.get(name) ??
        (constants.has(name) ? weights!.get(name)!.buffer : undefined);
    return program.dispatches.map((dispatch) => {
      const known: Record<string, GPUBuffer | undefined> = {};
      const outside: [string, string][] = [];
      for (const [role, name] of listTensors(dispatch)) {
        const buffer = getBuffer(name);
        if (buffer === undefined) outside.push([role, name]);
        else known[role] = buffer;
      }
      const kernel = this.#getKernel(dispatch, maxRows);
      return (pass, numRows, tensors) => {
        for (const [role, name] of outside) known[role] = this.#getBuffer(name, tensors.get(name)!);
        kernel.encode(pass, known as never, numRows);
      };
    });
  }

  /** The kernel of a dispatch, compiled for 1 to `maxRows` rows. */
  #getKernel(dispatch: Dispatch, maxRows: number): RowKernel {
    const { tensors: _, ...own } = dispatch;
    const key = JSON.stringify({ ...own, maxRows });
    let kernel = this.#kernels.get(key);
    if (kernel === undefined) {
      kernel = openKernel(this.#gpu, dispatch, maxRows);
      this.#kernels.set(key, kernel);
    }
    return kernel;
  }
}

/** @throws {StartupError} when a kernel cannot read a buffer of this size. */
function requireBinding({ limits }: GpuContext, numBytes: number): void {
  const most = Math.min(limits.maxBufferSize, limits.maxStorageBufferBindingSize);
  if (numBytes <= most) return;
  throw new StartupError(
    `The tokens of a step take a buffer of ${
      formatBytes(numBytes)
    }, and buffers of this device hold at most ${
      formatBytes(most)
    }. Choose fewer tokens for a step.`,
    { setting: "maxBatchTokens" },
  );
}

function openKernel(gpu: GpuContext, dispatch: Dispatch, maxRows: number): RowKernel {
  switch (dispatch.kind) {
    case "matvec": {
      const { params, hasTiles } = dispatch;
      const kernel = new Matvec(gpu, params, chooseMatvecTiling(gpu, params, hasTiles));
      kernel.compile(maxRows);
      return kernel;
    }
    case "norm":
      return new Norm(gpu, dispatch.params);
    case "pointwise":
      return new Pointwise(gpu, dispatch.params);
    case "take_rows":
      return new TakeRows(gpu, dispatch.params);
    case "rotate":
      throw new RangeError("On a GPU heads are rotated by the attention kernel, not before it.");
  }
}

/**
 * Reads the constants that attention needs for these layouts, by layer. Layers with the same table of angles share one
 * array.
 */
async function readConstants(
  layouts: readonly OperandLayout[],
  files: ModelFiles,
): Promise<Map<number, LayoutConstants>> {
  const constants = new Map<number, LayoutConstants>();
  const angles = new Map<string, Promise<Float32Array>>();
  const readAngles = (tensor: StoredTensor) => {
    const values = angles.get(tensor.name) ?? readFloats(tensor, files);
    angles.set(tensor.name, values);
    return values;
  };
  for (const { layer, norms, rotary } of layouts) {
    if (constants.has(layer)) continue;
    const [q, k] = await Promise.all(
      [norms?.q, norms?.k].map((tensor) => tensor && readFloats(tensor, files)),
    );
    const gammas = norms && new Float32Array(norms.sizes[0] + norms.sizes[1]);
    if (q) gammas!.set(q);
    if (k) gammas!.set(k, norms!.sizes[0]);
    constants.set(layer, {
      gammas,
      angles: rotary && { cos: await readAngles(rotary.cos), sin: await readAngles(rotary.sin) },
    });
  }
  return constants;
}
