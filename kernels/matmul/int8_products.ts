/**
 * Products of rows rounded to 8 bits with weights of 4 bits. The sum of a block is an integer, and graphics cards add
 * up four integer products per instruction.
 *
 * @module
 */
import type { ComputePass } from "../../src/gpu/commands.ts";
import { createBuffer, type GpuContext } from "../../src/gpu/device.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import { ELEM, expand, FOUR } from "../common/wgsl.ts";
import { listRowConstants, type MatvecParams } from "./matvec_params.ts";
import { listMatrixConstants, makeMatrixSource, rowsSource } from "./matvec_source.ts";
import rowsTemplate from "./int8_rows.wgsl" with { type: "text" };
import {
  BLOCK,
  chooseInt8Row,
  chooseInt8Tile,
  type Int8Params,
  type Int8Row,
  type Int8Tile,
  listFirstRows,
  makeInt8RowSource,
  makeInt8TileSource,
} from "./int8_source.ts";

const SHARED = {
  bias: "read",
  residual: "read",
  out: "read_write",
  weights: "read",
  scales: "read",
  zeroPoints: "read",
} as const;
const ROW_BINDINGS = { x: "read", affine: "read", ...SHARED } as const;
const TILE_BINDINGS = { rounded: "read", factors: "read", ...SHARED } as const;
const QUANTIZE_BINDINGS = { x: "read", affine: "read", rounded: "read_write" } as const;

type QuantizeKernel = Kernel<typeof QUANTIZE_BINDINGS>;
type RowKernel = Kernel<typeof ROW_BINDINGS>;
type TileKernel = Kernel<typeof TILE_BINDINGS>;

/** A buffer for each binding; bindings that the parameters do not use get any buffer. */
type Tensors = Readonly<Record<keyof typeof ROW_BINDINGS, GPUBuffer>>;

const FEATURE = "packed_4x8_integer_dot_product";
/** Bytes of workgroup memory while a row is rounded: for each unit of eight elements, and for all other data. */
const UNIT_BYTES = { plain: 8, normed: 12 };
const GATHERED_BYTES = 128;

/**
 * Whether the kernels can compute a product with integers. The format of the weights, the norm and the sum must allow
 * that, a row must fit into workgroup memory, and WGSL must have integer dot products.
 */
export function takesInt8(gpu: GpuContext, params: MatvecParams): params is Int8Params {
  const { k, weights, norm, sum } = params;
  if (weights.kind !== "nbits" || weights.bits !== 4 || weights.allowsInt8 !== true) return false;
  const unitBytes = UNIT_BYTES[norm ? "normed" : "plain"];
  const isWhole = weights.blockSize % BLOCK === 0 && k % weights.blockSize === 0;
  const isSimple = norm === undefined || norm.kind === "rms" && !norm.hasBeta;
  return isWhole && isSimple && sum === undefined &&
    k / 8 * unitBytes + GATHERED_BYTES <= gpu.limits.maxComputeWorkgroupStorageSize &&
    languageFeatures().has(FEATURE);
}

/** Language extensions of Deno's WGSL, which its types do not have yet. */
function languageFeatures(): ReadonlySet<string> {
  const { wgslLanguageFeatures } = navigator.gpu as GPU & {
    readonly wgslLanguageFeatures?: ReadonlySet<string>;
  };
  return wgslLanguageFeatures ?? new Set();
}

/**
 * The tile for this many rows is compiled first, because it compiles quickly. With more rows, it takes a quarter more
 * time than the tile that is made for more rows.
 */
const FIRST_ROWS = 128;

/** The division of the work for a single row and for several rows. */
export interface Int8Choices {
  readonly row?: () => Int8Row | undefined;
  readonly tile?: (numRows: number) => Int8Tile;
}

/** Computes products. A row's result is the same, bit for bit, whichever rows run with it. */
export class Int8Products {
  readonly #gpu: GpuContext;
  readonly #params: Int8Params;
  readonly #chooseRow: () => Int8Row | undefined;
  readonly #chooseTile: (numRows: number) => Int8Tile;
  readonly #tiles = new Map<string, TileKernel>();
  /** The tile that is compiled first. It takes any number of rows until the better ones are compiled. */
  #first: Int8Tile | undefined;
  #row: RowKernel | undefined;
  #quantize: QuantizeKernel | undefined;

  /** @param choices overrides the best division of the work. */
  constructor(gpu: GpuContext, params: Int8Params, choices: Int8Choices = {}) {
    this.#gpu = gpu;
    this.#params = params;
    this.#chooseRow = choices.row ?? (() => chooseInt8Row(params));
    this.#chooseTile = choices.tile ?? ((numRows) => chooseInt8Tile(gpu, params, numRows));
  }

  /** Compiles programs; see {@linkcode Matvec.compile}. */
  compile(maxRows: number): void {
    const row = this.#chooseRow();
    if (row !== undefined) this.#openRow(row);
    if (row !== undefined && maxRows === 1) return;
    this.#openQuantize();
    this.#first = this.#chooseTile(Math.min(maxRows, FIRST_ROWS));
    this.#openTile(this.#first);
    for (const numRows of listFirstRows().filter((numRows) => numRows <= maxRows)) {
      this.#gpu.later.push(() => this.#openTile(this.#chooseTile(numRows)));
    }
  }

  /** Appends the products: one dispatch for a single row, and two for more rows, of which the first rounds them. */
  encode(pass: ComputePass, tensors: Tensors, numRows: number): void {
    const { k, gate, n } = this.#params;
    const outputs = gate ? 2 * n : n;
    const row = numRows === 1 ? this.#chooseRow() : undefined;
    if (row !== undefined) {
      this.#openRow(row).encode(pass, tensors, [Math.ceil(outputs / row.outs)]);
      return;
    }
    const rounded = getRoundedRows(this.#gpu, k, numRows);
    this.#openQuantize().encode(pass, { ...tensors, rounded }, [numRows]);
    const wanted = this.#chooseTile(numRows);
    const tile = this.#tiles.has(JSON.stringify(wanted)) ? wanted : this.#first ?? wanted;
    const groups = [Math.ceil(outputs / tile.columns), Math.ceil(numRows / tile.rows)] as const;
    this.#openTile(tile).encode(pass, { ...tensors, rounded, factors: rounded }, groups);
  }

  /** Makes the kernel for the product of one row. */
  #openRow(row: Int8Row): RowKernel {
    const params = this.#params;
    return this.#row ??= Kernel.get(this.#gpu, {
      name: "matvec",
      source: [
        ...[ELEM[params.elem], FOUR[params.elem], rowsSource(params), makeInt8RowsSource()],
        ...[makeMatrixSource(params), makeInt8RowSource(params, row)],
      ].join(""),
      bindings: ROW_BINDINGS,
      constants: { ...listRowConstants(params), ...listMatrixConstants(params), OUTS: row.outs },
    });
  }

  /** Makes the kernel that rounds a product's rows. */
  #openQuantize(): QuantizeKernel {
    const params = this.#params;
    const units = params.k / 8;
    return this.#quantize ??= Kernel.get(this.#gpu, {
      name: "quantize_rows",
      source: FOUR[params.elem] + rowsSource(params) + makeInt8RowsSource({ isQuantizer: true }),
      bindings: QUANTIZE_BINDINGS,
      constants: {
        ...listRowConstants(params),
        BLOCKS: params.k / BLOCK,
        UNITS: units,
        SQUARES: params.norm ? units : 1,
      },
    });
  }

  /** Makes the kernel for the product of rounded rows. */
  #openTile(tile: Int8Tile): TileKernel {
    const params = this.#params;
    const key = JSON.stringify(tile);
    const kernel = this.#tiles.get(key) ?? Kernel.get(this.#gpu, {
      name: "matvec",
      source: ELEM[params.elem] + makeInt8RowsSource() + makeMatrixSource(params) +
        makeInt8TileSource(params, tile),
      bindings: TILE_BINDINGS,
      constants: { ...listMatrixConstants(params), OUTS: tile.columns },
    });
    this.#tiles.set(key, kernel);
    return kernel;
  }
}

/** Declares the layout of rounded rows, and the kernel that rounds them if `isQuantizer`. */
function makeInt8RowsSource({ isQuantizer = false } = {}): string {
  return expand(rowsTemplate, { IS_QUANTIZER: isQuantizer });
}

/** Number of rows that lie together; see int8_rows.wgsl. */
const GROUP_ROWS = 64;

const roundedBuffers = new WeakMap<GpuContext, GPUBuffer>();

/**
 * The buffer for rounded rows, between the kernel that rounds them and the product. All products of a device share one,
 * since they run one after the other. If a larger buffer is needed, it replaces the smaller one. Commands that have
 * been recorded with the smaller one still use that.
 */
function getRoundedRows(gpu: GpuContext, k: number, numRows: number): GPUBuffer {
  const groups = 2 ** Math.ceil(Math.log2(Math.ceil(numRows / GROUP_ROWS)));
  // The elements of rows, two words per block, and one word per row.
  const size = groups * GROUP_ROWS * (k + k / BLOCK * 8 + 4);
  let buffer = roundedBuffers.get(gpu);
  if (buffer === undefined || buffer.size < size) {
    const usage = GPUBufferUsage.STORAGE;
    roundedBuffers.set(gpu, buffer = createBuffer(gpu, { label: "rounded rows", size, usage }));
  }
  return buffer;
}
