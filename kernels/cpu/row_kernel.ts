/**
 * The interface of the kernels for a few rows on the CPU.
 *
 * @module
 */

/** Runs a kernel on the first rows of its tensors. */
export type RowKernel = (numRows: number) => void;

/** The addresses of a kernel's tensors; absent those that it does without. */
export type Addresses<Name extends string> = Readonly<Partial<Record<Name, number>>>;

/** Reads bytes of a matrix from `offset` on. */
export type ReadBytes = (offset: number, into: Uint8Array) => Promise<void>;
