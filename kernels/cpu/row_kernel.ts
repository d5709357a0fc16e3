/**
 * The interface of the CPU kernels for few rows.
 *
 * @module
 */

/** Runs a kernel on the first rows of its tensors. */
export type RowKernel = (numRows: number) => void;

/** Addresses of a kernel's tensors; unused tensors are absent. */
export type Addresses<Name extends string> = Readonly<Partial<Record<Name, number>>>;

/** Reads bytes of a matrix from `offset` on. */
export type ReadBytes = (offset: number, into: Uint8Array) => Promise<void>;
