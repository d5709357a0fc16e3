/**
 * Segments of a cut decoder as dispatches of our kernels, recorded layer after layer for one submit.
 *
 * @module
 */
import { Matvec } from "../../kernels/matvec.ts";
import { chooseMatvecTiling, roomForRows } from "../../kernels/matvec_shape.ts";
import { Norm } from "../../kernels/norm.ts";
import { Pointwise } from "../../kernels/pointwise.ts";
import { TakeRows } from "../../kernels/take_rows.ts";
import type { ComputePass } from "../gpu/commands.ts";
import { createBuffer, type GpuContext } from "../gpu/device.ts";
import type { CompiledSegment } from "../onnx/compile/compile_cut.ts";
import {
  type Dispatch,
  type Lowering,
  LOWERINGS,
  type Program,
  tensorsOf,
} from "../onnx/compile/program.ts";
import type { HeadRows } from "../onnx/graph_cut.ts";
import type { Tensor } from "../onnx/runtime/ort.ts";
import type { FormConstants } from "./paged_attention.ts";
import {
  type CompiledSegments,
  firstRefusal,
  type SegmentsOptions,
  type SegmentStep,
} from "./compiled_segments.ts";
import { readConstants } from "./form_constants.ts";

type Buffers = Readonly<Record<string, GPUBuffer | undefined>>;

/** Records one dispatch for some rows; `outside` are the step's input tensors. */
type Recorder = (
  pass: ComputePass,
  numRows: number,
  outside: ReadonlyMap<string, Tensor>,
) => void;

/** A segment in one lowering. */
interface OpenProgram {
  readonly dispatches: readonly Recorder[];
  /** Records of the attentions after it, by the names of their outputs. */
  readonly attends: ReadonlyMap<string, () => void>;
}

type OpenSegment = Readonly<Record<Lowering, OpenProgram>>;

/** The weights are the caller's. */
export class WebGpuSegments implements CompiledSegments {
  readonly #gpu: GpuContext;
  readonly #options: SegmentsOptions;
  readonly #segments: readonly (OpenSegment | undefined)[];
  /** By position in a program and size: segments run in sequence, and share them. */
  readonly #scratch = new Map<string, GPUBuffer>();

  /** Inputs of the cut that are on the host, by name; the last tensor is what the buffer holds. */
  readonly #uploads = new Map<string, { readonly buffer: GPUBuffer; tensor: Tensor | undefined }>();

  private constructor(
    gpu: GpuContext,
    options: SegmentsOptions,
    open: (segments: WebGpuSegments) => readonly (OpenSegment | undefined)[],
  ) {
    this.#gpu = gpu;
    this.#options = options;
    this.#segments = open(this);
  }

  /**
   * Uploads what the dispatches read and prepares them.
   *
   * @throws {RangeError} when an attention does not support its operands' layout.
   */
  static async open(gpu: GpuContext, options: SegmentsOptions): Promise<WebGpuSegments> {
    const { segments, weights, readFloats } = options;
    const programs = segments.flatMap((each) =>
      "refused" in each ? [] : LOWERINGS.map((lowering) => each[lowering])
    );
    await weights!.upload(programs.flatMap((program) => program.weights));
    const constants = await readConstants(
      programs.flatMap(({ forms }) => forms),
      readFloats,
    );
    return new WebGpuSegments(
      gpu,
      options,
      (own) => segments.map((segment) => own.#open(segment, constants)),
    );
  }

  get numCompiled(): number {
    return this.#segments.filter((segment) => segment !== undefined).length;
  }

  get refusal(): string | undefined {
    return firstRefusal(this.#options.segments);
  }

  has(index: number): boolean {
    return this.#segments[index] !== undefined;
  }

  record(index: number, { numRows, lowering, tensors }: SegmentStep): void {
    const pass = this.#gpu.commands;
    for (const record of this.#segments[index]![lowering].dispatches) {
      record(pass, numRows, tensors);
    }
  }

  attend(index: number, lowering: Lowering, output: string): boolean {
    const attend = this.#segments[index]![lowering].attends.get(output);
    attend?.();
    return attend !== undefined;
  }

  dispose(): void {
    for (const buffer of this.#scratch.values()) buffer.destroy();
    for (const { buffer } of this.#uploads.values()) buffer.destroy();
  }

  #open(
    segment: CompiledSegment,
    constants: ReadonlyMap<number, FormConstants>,
  ): OpenSegment | undefined {
    if ("refused" in segment) return undefined;
    const open = (lowering: Lowering): OpenProgram => ({
      dispatches: this.#openDispatches(segment[lowering]),
      attends: this.#openAttends(segment[lowering], constants),
    });
    return { few: open("few"), many: open("many") };
  }

  #openAttends(
    program: Program,
    constants: ReadonlyMap<number, FormConstants>,
  ): OpenProgram["attends"] {
    const { attention, buffers: crossing, siteOutputs } = this.#options;
    const scratch = this.#scratchOf(program);
    return new Map(program.forms.map((form) => {
      const attend = attention.openForm!(form, constants.get(form.layer)!);
      const output = siteOutputs[form.layer]!;
      const bufferOf = ({ tensor }: HeadRows) => scratch.get(tensor) ?? crossing.get(tensor)!;
      const [q, k, v] = [form.q, form.k, form.v].map(bufferOf) as [GPUBuffer, GPUBuffer, GPUBuffer];
      const buffers = { q, k, v, out: crossing.get(output)! };
      return [output, () => attend(buffers)];
    }));
  }

  #scratchOf({ scratch }: Program): Map<string, GPUBuffer> {
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
  #bufferOf(name: string, tensor: Tensor): GPUBuffer {
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
    const scratch = this.#scratchOf(program);
    const { buffers: crossing, weights } = this.#options;
    const constants = new Set(program.weights.map(({ name }) => name));
    const bufferOf = (name: string) =>
      scratch.get(name) ?? crossing.get(name) ??
        (constants.has(name) ? weights!.get(name)!.buffer : undefined);
    return program.dispatches.map((dispatch) => {
      const known: Record<string, GPUBuffer | undefined> = {};
      const outside: [string, string][] = [];
      for (const [role, name] of tensorsOf(dispatch)) {
        const buffer = bufferOf(name);
        if (buffer === undefined) outside.push([role, name]);
        else known[role] = buffer;
      }
      const encode = openKernel(this.#gpu, dispatch);
      if (outside.length === 0) return (pass, numRows) => encode(pass, known, numRows);
      return (pass, numRows, tensors) => {
        for (const [role, name] of outside) known[role] = this.#bufferOf(name, tensors.get(name)!);
        encode(pass, known, numRows);
      };
    });
  }
}

/** The kernel of a dispatch; it is given the buffers that the dispatch names. */
function openKernel(
  gpu: GpuContext,
  dispatch: Dispatch,
): (pass: ComputePass, buffers: Buffers, numRows: number) => void {
  switch (dispatch.kind) {
    case "matvec": {
      const { params, hasTiles } = dispatch;
      const kernel = new Matvec(gpu, params, chooseMatvecTiling(gpu, params, hasTiles));
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
  }
}
