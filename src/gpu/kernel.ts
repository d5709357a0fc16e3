/**
 * Compute pipelines with typed bindings, and their cached bind groups.
 *
 * @module
 */
import type { ComputePass } from "./commands.ts";
import { explainError, type GpuContext } from "./device.ts";

/** An element type of tensors on the device. */
export type Elem = "f32" | "f16";

/** A kernel's access to a binding's buffer. */
type Access = "read" | "read_write" | "uniform";

/** Bindings of group 0 by name, in the order of their numbers. */
type Bindings = Readonly<Record<string, Access>>;

const BUFFER_TYPES = {
  read: "read-only-storage",
  read_write: "storage",
  uniform: "uniform",
} as const;

/** Errors of a program: of its source or bindings, and of the driver's compiler. */
const SCOPES = ["validation", "internal"] as const satisfies GPUErrorFilter[];

/** A WGSL program and its specialisation. */
interface KernelSpec<B extends Bindings> {
  /** Name of the kernel and of its entry point. */
  readonly name: string;
  readonly source: string;
  readonly bindings: B;
  /** Values of the `override` declarations. */
  readonly constants: Readonly<Record<string, number>>;
}

/** A buffer for each binding. */
type Tensors<B extends Bindings> = Readonly<Record<keyof B, GPUBuffer>>;

type AnyKernel = Kernel<Bindings>;
interface BindGroupNode {
  readonly next: WeakMap<GPUBuffer, BindGroupNode>;
  group?: GPUBindGroup;
}

const kernelsByContext = new WeakMap<GpuContext, Map<string, AnyKernel>>();
const modulesByContext = new WeakMap<GpuContext, Map<string, WeakRef<GPUShaderModule>>>();

/** The kernels' name for the data type of a tensor. */
export function toElem(dtype: "float32" | "float16"): Elem {
  return dtype === "float16" ? "f16" : "f32";
}

/** The number of bytes of an element. */
export function elemBytes(elem: Elem): number {
  return elem === "f16" ? 2 : 4;
}

/**
 * The shader module of a source. Kernels that differ only in constants share the module, which is dropped once all of
 * them are compiled.
 */
function getModule(
  gpu: GpuContext,
  { name, source }: { readonly name: string; readonly source: string },
): GPUShaderModule {
  const modules = modulesByContext.get(gpu) ?? new Map<string, WeakRef<GPUShaderModule>>();
  modulesByContext.set(gpu, modules);
  const known = modules.get(source)?.deref();
  if (known !== undefined) return known;
  const module = gpu.device.createShaderModule({ label: name, code: source });
  modules.set(source, new WeakRef(module));
  return module;
}

/** A pipeline. Kernels with equal specifications on one device are the same object. */
export class Kernel<B extends Bindings> {
  readonly #gpu: GpuContext;
  readonly #label: string;
  /** Maximum number of workgroups along each dimension. */
  readonly #mostWorkgroups: number;
  readonly #names: readonly (keyof B & string)[];
  readonly #layout: GPUBindGroupLayout;
  readonly #pipeline: GPUComputePipeline;
  /** Bind groups in a trie over the buffers in binding order. It keeps no buffer alive. */
  readonly #groups: BindGroupNode = { next: new WeakMap() };
  #failure: Error | undefined;

  private constructor(gpu: GpuContext, spec: KernelSpec<B>) {
    this.#gpu = gpu;
    this.#label = spec.name;
    this.#mostWorkgroups = gpu.limits.maxComputeWorkgroupsPerDimension;
    this.#names = Object.keys(spec.bindings);
    for (const scope of SCOPES) gpu.device.pushErrorScope(scope);
    // An automatic layout would lack bindings that the specialised kernel does not use.
    this.#layout = gpu.device.createBindGroupLayout({
      label: spec.name,
      entries: this.#names.map((name, binding) => ({
        binding,
        visibility: GPUShaderStage.COMPUTE,
        buffer: { type: BUFFER_TYPES[spec.bindings[name]!] },
      })),
    });
    this.#pipeline = gpu.device.createComputePipeline({
      label: spec.name,
      layout: gpu.device.createPipelineLayout({ bindGroupLayouts: [this.#layout] }),
      compute: {
        module: getModule(gpu, spec),
        entryPoint: spec.name,
        constants: spec.constants,
      },
    });
    gpu.counts.pipelines++;
    // A lost device reports no errors; its loss is reported elsewhere.
    const popped = SCOPES.map(() => gpu.device.popErrorScope().catch(() => null));
    void Promise.all(popped).then((errors) => {
      const error = errors.find((each) => each !== null);
      if (!error) return;
      this.#failure = new Error(
        `The kernel "${spec.name}" cannot run on this device: ${explainError(error)}`,
      );
      gpu.uncompiled.resolve(this.#failure.message);
    });
  }

  /** The kernel of this specification on this device, compiled at the first call. */
  static get<B extends Bindings>(gpu: GpuContext, spec: KernelSpec<B>): Kernel<B> {
    let kernels = kernelsByContext.get(gpu);
    if (kernels === undefined) kernelsByContext.set(gpu, kernels = new Map());
    const key = JSON.stringify([spec.name, spec.source, spec.constants]);
    let kernel = kernels.get(key);
    if (kernel === undefined) kernels.set(key, kernel = new Kernel(gpu, spec) as AnyKernel);
    return kernel as Kernel<B>;
  }

  /**
   * Appends a dispatch. For the same buffers, the bind group is created only once.
   *
   * @throws {Error} when the kernel did not compile. Without this, its output buffer would silently stay unchanged.
   * @throws {RangeError} when there are more workgroups than the device allows. Without this, none of them would run.
   */
  encode(
    pass: ComputePass,
    tensors: Tensors<B>,
    workgroups: readonly [x: number, y?: number, z?: number],
  ): void {
    if (this.#failure !== undefined) throw this.#failure;
    for (const count of workgroups) {
      if (count! <= this.#mostWorkgroups) continue;
      throw new RangeError(
        `The kernel "${this.#label}" was given ${count} workgroups; ` +
          `the device's limit is ${this.#mostWorkgroups}.`,
      );
    }
    pass.setPipeline(this.#pipeline);
    pass.setBindGroup(0, this.#bind(tensors));
    pass.dispatchWorkgroups(...workgroups);
  }

  #bind(tensors: Tensors<B>): GPUBindGroup {
    let node = this.#groups;
    for (const name of this.#names) {
      let next = node.next.get(tensors[name]);
      if (next === undefined) node.next.set(tensors[name], next = { next: new WeakMap() });
      node = next;
    }
    if (node.group === undefined) {
      this.#gpu.counts.bindGroups++;
      node.group = this.#gpu.device.createBindGroup({
        label: this.#label,
        layout: this.#layout,
        entries: this.#names.map((name, binding) => ({
          binding,
          resource: { buffer: tensors[name] },
        })),
      });
    }
    return node.group;
  }
}
