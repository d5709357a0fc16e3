/**
 * Medians and tables for the benchmarks.
 *
 * @module
 */

/** The median. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? NaN;
}

/** Milliseconds that `work` takes. */
export async function time(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

/** Prints a Markdown table. */
export function printTable(header: readonly string[], rows: readonly (readonly string[])[]): void {
  // deno-lint-ignore no-console -- a table is what a benchmark is run for
  console.log(formatTable(header, rows));
}

/** Formats a Markdown table between empty lines, with aligned columns. */
export function formatTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const widths = header.map((cell, column) =>
    Math.max(cell.length, ...rows.map((row) => row[column]?.length ?? 0))
  );
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, column) => (row[column] ?? "").padEnd(width)).join(" | ")} |`;
  const rule = widths.map((width) => "-".repeat(width));
  return ["", line(header), line(rule), ...rows.map(line), ""].join("\n");
}
