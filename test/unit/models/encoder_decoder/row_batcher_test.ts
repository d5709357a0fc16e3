import assert from "node:assert/strict";
import { type JobRows, RowBatcher } from "../../../../src/models/encoder_decoder/row_batcher.ts";

interface Job {
  readonly name: string;
  /** Steps until it ends. */
  steps: number;
  dropped?: boolean;
  error?: unknown;
  readonly isDropped: () => boolean;
  readonly onError: (error: unknown) => void;
}

function job(name: string, steps: number): Job {
  const made: Job = {
    name,
    steps,
    isDropped: () => made.dropped === true,
    onError: (error) => made.error = error,
  };
  return made;
}

/** Rows that count down, and write down who took part in each step. */
class CountingRows implements JobRows<Job> {
  readonly log: string[] = [];
  readonly room: number;
  rows: Job[] = [];
  onStep = () => {};

  constructor(room: number) {
    this.room = room;
  }

  get numRows() {
    return this.rows.length;
  }

  get numFree() {
    return this.room - this.rows.length;
  }

  admit(jobs: readonly Job[]): Promise<void> {
    if (jobs.some(({ name }) => name === "unwelcome")) return Promise.reject(new Error("no"));
    this.rows.push(...jobs);
    return Promise.resolve();
  }

  step(): Promise<void> {
    this.rows = this.rows.filter((row) => !row.isDropped());
    this.log.push(this.rows.map(({ name }) => name).join(""));
    this.onStep();
    for (const row of this.rows) row.steps--;
    if (this.rows.some(({ name }) => name === "poison")) return Promise.reject(new Error("ill"));
    this.rows = this.rows.filter(({ steps }) => steps > 0);
    return Promise.resolve();
  }

  clear(): Job[] {
    return this.rows.splice(0);
  }
}

function open(rows: CountingRows, maxAdmitted = 8) {
  const seen: string[] = [];
  const batcher = new RowBatcher<Job>({
    rows,
    maxAdmitted,
    onAdmitted: (jobs) => seen.push(jobs.map(({ name }) => name).join("")),
    onStep: () => {},
  });
  return { batcher, seen };
}

Deno.test("RowBatcher takes a job into the steps of those before it, and another as soon as one ends", async () => {
  const rows = new CountingRows(2);
  const { batcher, seen } = open(rows);
  batcher.add(job("a", 4));
  rows.onStep = () => {
    if (rows.log.length === 1) { for (const late of [job("b", 2), job("c", 1)]) batcher.add(late); }
  };
  await batcher.close();
  assert.deepEqual(rows.log, ["a", "ab", "ab", "ac"]);
  assert.deepEqual(seen, ["a", "b", "c"]);
});

Deno.test("RowBatcher takes in at most so many at a time", async () => {
  const rows = new CountingRows(8);
  const { batcher, seen } = open(rows, 2);
  for (const name of "abc") batcher.add(job(name, 3));
  await batcher.close();
  assert.deepEqual(seen, ["ab", "c"]);
});

Deno.test("RowBatcher leaves out what is dropped, waiting or in work", async () => {
  const rows = new CountingRows(1);
  const { batcher } = open(rows);
  const [a, b, c] = [job("a", 9), job("b", 1), job("c", 1)];
  for (const each of [a, b, c]) batcher.add(each);
  rows.onStep = () => a.dropped = b.dropped = rows.log.length === 2;
  await batcher.close();
  assert.deepEqual(rows.log.filter((step) => step !== ""), ["a", "a", "c"]);
});

Deno.test("RowBatcher tells of failures, and goes on", async () => {
  const rows = new CountingRows(4);
  const { batcher } = open(rows, 1);
  const [unwelcome, good, poison, late] = [
    job("unwelcome", 1),
    job("a", 9),
    job("poison", 1),
    job("b", 1),
  ];
  for (const each of [unwelcome, good, poison, late]) batcher.add(each);
  await batcher.close();
  assert.match(String(unwelcome.error), /no/);
  assert.match(String(good.error), /ill/);
  assert.match(String(poison.error), /ill/);
  assert.equal(late.error, undefined);
  assert.equal(late.steps, 0);
  assert.equal(rows.numRows, 0);
});
