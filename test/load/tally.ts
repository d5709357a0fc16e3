/**
 * Times and outcomes of requests of one kind.
 *
 * @module
 */

/** The data that is posted between threads. */
export interface TallyData {
  readonly seconds: number[];
  readonly ends: Record<string, number>;
  /** Seconds of the requests that were answered with 200. */
  readonly good: number[];
}

export class Tally implements TallyData {
  readonly seconds: number[];
  readonly ends: Record<string, number>;
  readonly good: number[];

  constructor({ seconds, ends, good }: TallyData = { seconds: [], ends: {}, good: [] }) {
    this.seconds = seconds;
    this.ends = ends;
    this.good = good;
  }

  add(end: string, seconds: number): void {
    this.seconds.push(seconds);
    this.ends[end] = (this.ends[end] ?? 0) + 1;
    if (end === "200") this.good.push(seconds);
  }

  get count(): number {
    return this.seconds.length;
  }

  /** Seconds within which a share of the requests ended, with any outcome. */
  within(share: number): number {
    const sorted = this.seconds.toSorted((a, b) => a - b);
    return sorted[Math.ceil(share * sorted.length) - 1] ?? NaN;
  }

  /** The share of the requests that were answered with 200 within `seconds`. */
  shareWithin(seconds: number): number {
    return this.good.filter((each) => each <= seconds).length / this.count;
  }
}

/** Awaits `send`, and records its outcome. */
export async function time(tally: Tally, send: () => Promise<string>): Promise<void> {
  const start = performance.now();
  const end = await send().catch((error) => (error as Error).name);
  tally.add(end, (performance.now() - start) / 1000);
}
