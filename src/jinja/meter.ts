/**
 * Limits the cost of rendering a template. A template is code from a model's folder, and its input comes from anybody:
 * endless loops, texts that keep doubling and deep recursion must end as an error of one request.
 *
 * Rendering is synchronous, so one meter serves the whole thread.
 *
 * @module
 */
import { raise } from "./python/values.ts";

/** Less than a second of work. A conversation of 20,000 tokens takes about 10,000 steps. */
const MAX_STEPS = 10_000_000;

/** Longest text in UTF-16 units: several times the longest text of a request. */
const MAX_TEXT_LENGTH = 16 * 1024 * 1024;

/** Deepest nesting of macro calls, recursive loops and values, well below the limit of JavaScript's stack. */
const MAX_DEPTH = 200;

const CHARS_PER_STEP = 32;

/** Time is limited too, because a step takes longer on some machines, and some steps take longer than others. */
const MAX_MILLISECONDS = 1500;
const STEPS_BETWEEN_LOOKS = 5000;

let numSteps = 0;
let depth = 0;
let nextLook = 0;
let deadline = 0;

/** Resets the counts and the time. It is called before a template is compiled or rendered. */
export function startMeter(): void {
  numSteps = 0;
  depth = 0;
  nextLook = STEPS_BETWEEN_LOOKS;
  deadline = performance.now() + MAX_MILLISECONDS;
}

/**
 * Counts steps: about one for each node of the template that is executed, and for each element of a list.
 *
 * @throws {TemplateError} when there were too many steps, or they took too long.
 */
export function charge(steps: number): void {
  numSteps += steps;
  if (numSteps >= nextLook) requireTime();
}

function requireTime(): void {
  nextLook = numSteps + STEPS_BETWEEN_LOOKS;
  const hint = "is there a loop without end?";
  if (numSteps > MAX_STEPS) raise("RuntimeError", `it takes more than ${MAX_STEPS} steps: ${hint}`);
  if (performance.now() > deadline) {
    raise("RuntimeError", `it takes longer than ${MAX_MILLISECONDS / 1000} s: ${hint}`);
  }
}

/** Counts the steps for reading or writing a text once. */
export function chargeText(length: number): void {
  charge(1 + length / CHARS_PER_STEP);
}

/** @throws {TemplateError} when a text is too long. */
export function requireShort(length: number): void {
  if (length <= MAX_TEXT_LENGTH) return;
  raise("MemoryError", `it writes a text of more than ${MAX_TEXT_LENGTH} characters`);
}

/**
 * Runs a function that may call `descend` again.
 *
 * @throws {TemplateError} when the recursion is too deep.
 */
export function descend<T>(run: () => T): T {
  if (++depth > MAX_DEPTH) {
    raise("RecursionError", `it calls itself more than ${MAX_DEPTH} levels deep`);
  }
  try {
    return run();
  } finally {
    depth--;
  }
}
