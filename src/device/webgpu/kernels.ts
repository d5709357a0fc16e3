/**
 * Runs programs on a GPU: dispatches of our kernels, recorded layer after layer for one submit.
 *
 * @module
 */
import { Matvec } from "../../../kernels/matmul/matvec.ts";
import { chooseMatvecTiling, roomForRows } from "../../../kernels/matmul/matvec_shape.ts";
import { Norm } from "../../../kernels/norm/norm.ts";
import { Pointwise } from "../../../kernels/pointwise/pointwise.ts";
import { TakeRows } from "../../../kernels/take_rows/take_rows.ts";
import type { ComputePass } from "../../gpu/commands.ts";
import { createBuffer, type GpuContext } from "../../gpu/device.ts";
import { type Dispatch, listTensors, type Program, type SiteForm } from "../../program/program.ts";
import type { HeadRows } from "../../graph/graph_cut.ts";
import type { Tensor } from "../ort/ort.ts";
import { readConstants } from "./form_constants.ts";
import type { KernelExecutor, KernelsOptions, KernelStep } from "../kernel_executor.ts";
import type { FormConstants } from "../paged_attention.ts";

type Buffers = Readonly<Record<string, GPUBuffer | undefined>>;

/** Records one dispatch on buffers by their roles. */
type Encode = (pass: ComputePass, buffers: Buffers, numRows: number) => void;

/** Records one dispatch for some rows; `outside` are the step's input tensors. */
type Recorder = (
  pass: ComputePass,
  numRows: number,
  outside: ReadonlyMap<string, Tensor>,
) => void;

/** The weights are the caller's. */
export class WebGpuKernels implements KernelExecutor {
  readonly #gpu: GpuContext;
  readonly #options: KernelsOptions;
  readonly #programs = new Map<Program, readonly Recorder[]>();
  readonly #products: Matvec[] = [];
  readonly #attentions = new Map<SiteForm, () => void>();
  /** Buffers by position in a program and size: programs run in sequence, and share them. */
  readonly #scratch = new Map<string, GPUBuffer>();
  /** Inputs of the cut that are on the host, by name; the last tensor is what the buffer holds. */
  readonly #uploads = new Map<string, { readonly buffer: GPUBuffer; tensor: Tensor | undefined }>();

  private constructor(gpu: GpuContext, options: KernelsOptions) {
    this.#gpu = gpu;
    this.#options = options;
  }

  /**
   * Uploads what the dispatches read and prepares them.
   *
   * @throws {RangeError} when an attention does not support its operands' layout.
   */
  static async open(gpu: GpuContext, options: KernelsOptions): Promise<WebGpuKernels> {
    const { programs, weights, readFloats } = options;
    await weights!.upload(programs.flatMap((program) => program.weights));
    const constants = await readConstants(programs.flatMap(({ forms }) => forms), readFloats);
    const kernels = new WebGpuKernels(gpu, options);
    for (const program of programs) {
      kernels.#programs.set(program, kernels.#openDispatches(program));
      kernels.#openAttentions(program, constants);
    }
    return kernels;
  }

  get isExact(): boolean {
    return this.#products.every(({ isExact }) => isExact);
  }

  run(program: Program, { numRows, tensors }: KernelStep): void {
    const pass = this.#gpu.commands;
    for (const record of this.#programs.get(program)!) record(pass, numRows, tensors);
  }

  attend(form: SiteForm): void {
    this.#attentions.get(form)!();
  }

  dispose(): void {
    for (const buffer of this.#scratch.values()) buffer.destroy();
    for (const { buffer } of this.#uploads.values()) buffer.destroy();
  }

  #openAttentions(program: Program, constants: ReadonlyMap<number, FormConstants>): void {
    const { attention, buffers: crossing, siteOutputs } = this.#options;
    const scratch = this.#getScratch(program);
    for (const form of program.forms) {
      const attend = attention.openForm!(form, constants.get(form.layer)!);
      const getBuffer = ({ tensor }: HeadRows) => scratch.get(tensor) ?? crossing.get(tensor)!;
      const [q, k, v] = [form.q, form.k, form.v].map(getBuffer) as [
        GPUBuffer,
        GPUBuffer,
        GPUBuffer,
      ];
      const buffers = { q, k, v, out: crossing.get(siteOutputs[form.layer]!)! };
      this.#attentions.set(form, () => attend(buffers));
    }
  }

  #getScratch({ scratch }: Program): Map<string, GPUBuffer> {
    return new Map([...scratch].map(([name, rowBytes], position) => {
      const key = `${position}: ${rowBytes}`;
      let buffer = this.#scratch.get(key);
      if (buffer === undefined) {
        buffer = createBuffer(this.#gpu, {
          label: "scratch",
          size: Math.ceil(rowBytes * roomForRows(this.#options.maxRows) / 16) * 16,
          usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC,
        });
        this.#scratch.set(key, buffer);
      }
      return [name, buffer];
    }));
  }

  /** The buffer of an input of the cut; numbers that ONNX Runtime reads on the host are uploaded, once a step. */
  #getBuffer(name: string, tensor: Tensor): GPUBuffer {
    if (tensor.location === "gpu-buffer") return tensor.gpuBuffer as GPUBuffer;
    let upload = this.#uploads.get(name);
    if (upload === undefined) {
      const buffer = createBuffer(this.#gpu, {
        label: name,
        size: this.#options.maxRows * BigInt64Array.BYTES_PER_ELEMENT,
        usage: GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST,
      });
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
    const { buffers: crossing, weights, countMaxRows } = this.#options;
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
      const encode = this.#openKernel(dispatch, maxRows);
      if (outside.length === 0) return (pass, numRows) => encode(pass, known, numRows);
      return (pass, numRows, tensors) => {
        for (const [role, name] of outside) known[role] = this.#getBuffer(name, tensors.get(name)!);
        encode(pass, known, numRows);
      };
    });
  }

  /** The kernel of a dispatch, compiled for 1 to `maxRows` rows; it is given the buffers that the dispatch names. */
  #openKernel(dispatch: Dispatch, maxRows: number): Encode {
    const gpu = this.#gpu;
    switch (dispatch.kind) {
      case "matvec": {
        const { params, hasTiles } = dispatch;
        const kernel = new Matvec(gpu, params, chooseMatvecTiling(gpu, params, hasTiles));
        kernel.compile(maxRows);
        this.#products.push(kernel);
        return (pass, buffers, numRows) => kernel.encode(pass, buffers as never, numRows);
      }
      case "norm": {
        const kernel = new Norm(gpu, dispatch.params);
        return (pass, buffers, numRows) => kernel.encode(pass, buffers as never, numRows);
      }
      case "pointwise": {
        const kernel = new Pointwise(gpu, dispatch.params);
        return (pass, buffers, numRows) => kernel.encode(pass, buffers as never, numRows);
      }
      case "take_rows": {
        const kernel = new TakeRows(gpu, dispatch.params);
        return (pass, buffers, numRows) => kernel.encode(pass, buffers as never, numRows);
      }
      case "rotate":
        throw new RangeError("Heads are rotated by the attention on a GPU, not before it.");
    }
  }
}
