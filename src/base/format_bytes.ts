/**
 * Human-readable byte counts.
 *
 * @module
 */

const UNITS = ["bytes", "kB", "MB", "GB", "TB"] as const;

/**
 * Three digits and a decimal unit, as disks and hubs count.
 *
 * ```ts
 * import { formatBytes } from "./format_bytes.ts";
 * import assert from "node:assert/strict";
 *
 * assert.equal(formatBytes(568_300_000), "568 MB");
 * ```
 */
export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log10(bytes) / 3));
  const amount = bytes / 1000 ** power;
  const text = power === 0 ? String(amount) : amount.toPrecision(Math.max(3, countDigits(amount)));
  return `${text} ${UNITS[power]}`;
}

function countDigits(amount: number): number {
  return Math.floor(Math.log10(amount)) + 1;
}
