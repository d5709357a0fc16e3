/**
 * Assigns addresses in a WebAssembly linear memory, before the memory is created.
 *
 * @module
 */
import { type Setting, StartupError } from "../../src/base/errors.ts";
import { adviseLargePages } from "../../src/base/memory.ts";

const PAGE_BYTES = 2 ** 16;
export const MAX_PAGES = 2 ** 16;
/** The largest WebAssembly memory. */
export const MAX_MEMORY_BYTES = PAGE_BYTES * MAX_PAGES;
/** Size of a cache line. */
export const ALIGNMENT = 64;

/** What a memory is for (in error messages), the setting that limits it, and how to allocate it. */
interface MemoryUse {
  readonly what: string;
  readonly setting?: Setting;
  readonly hasLargePages?: boolean | undefined;
  /** Bytes that the machine has left; not checked if absent. */
  readonly maxBytes?: number | undefined;
  /** Whether the memory may grow later. */
  readonly mayGrow?: boolean;
}

/** Initial content of a memory. */
type Words = Float32Array | Uint32Array | Int32Array;

/** Assigns addresses, then creates a memory that is just large enough, or grows an existing one. */
export class Arena {
  /** The next free address. Address 0 is reserved, and means "none". */
  #end = ALIGNMENT;
  readonly #contents = new Map<Words, number>();

  /** Reserves `length` elements of four bytes, initially 0. */
  reserve(length: number): number {
    const at = this.#end;
    this.#end += Math.ceil(length * 4 / ALIGNMENT) * ALIGNMENT;
    return at;
  }

  /** Reserves memory that initially contains `data`. The same array always gets the same address. */
  place(data: Words): number {
    const at = this.#contents.get(data) ?? this.reserve(data.length);
    this.#contents.set(data, at);
    return at;
  }

  /** Sets the initial content of reserved memory. */
  fill(at: number, data: Words): void {
    this.#contents.set(data, at);
  }

  /** @throws {StartupError} when there is not enough memory. */
  allocate(use: MemoryUse): WebAssembly.Memory {
    const memory = createMemory(Math.ceil(this.#end / PAGE_BYTES), use);
    // Large pages must be requested before anything is written to the memory.
    if (use.hasLargePages) adviseLargePages(memory);
    this.#write(memory);
    return memory;
  }

  /** Grows a memory as far as needed. @throws {RangeError} when there is not enough. */
  grow(memory: WebAssembly.Memory): void {
    const missing = Math.ceil(this.#end / PAGE_BYTES) - memory.buffer.byteLength / PAGE_BYTES;
    if (missing > 0) memory.grow(missing);
    this.#write(memory);
  }

  #write({ buffer }: WebAssembly.Memory): void {
    for (const [data, at] of this.#contents) {
      new Uint32Array(buffer, at, data.length)
        .set(new Uint32Array(data.buffer, data.byteOffset, data.length));
    }
  }
}

function createMemory(
  pages: number,
  { what, setting, maxBytes, mayGrow = false }: MemoryUse,
): WebAssembly.Memory {
  const wanted = `${what} take ${Math.ceil(pages / 16)} MiB`;
  if (pages > MAX_PAGES) {
    throw new StartupError(`${wanted}; on the CPU they may take at most ${MAX_PAGES / 16} MiB.`, {
      setting,
    });
  }
  if (maxBytes !== undefined && pages * PAGE_BYTES > maxBytes) {
    throw new StartupError(`${wanted}, and ${Math.floor(maxBytes / 2 ** 20)} MiB are left.`, {
      setting,
    });
  }
  try {
    const maximum = mayGrow ? MAX_PAGES : pages;
    return new WebAssembly.Memory({ initial: pages, maximum, shared: true });
  } catch (cause) {
    throw new StartupError(`${wanted}, which this machine cannot provide.`, { cause, setting });
  }
}

/** Reads bytes of a stored matrix, beginning at `offset`. */
export type ReadBytes = (offset: number, into: Uint8Array) => Promise<void>;
