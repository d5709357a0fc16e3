import assert from "node:assert/strict";
import { writeBytes, writeMessage, writeText } from "../../../src/cli/print.ts";

/** A target that accepts a few bytes at a time, and fails with `error` after `room` bytes. */
class Tube {
  readonly taken: number[] = [];
  readonly #room: number;
  readonly #error: Error;

  constructor(room: number, error: Error) {
    this.#room = room;
    this.#error = error;
  }

  writeSync(bytes: Uint8Array): number {
    if (this.taken.length >= this.#room) throw this.#error;
    const part = bytes.subarray(0, 3);
    this.taken.push(...part);
    return part.length;
  }
}

const full = new Error("No space left on device (os error 28)");

Deno.test("writeText() continues until everything is written", () => {
  const tube = new Tube(100, full);
  writeText(tube, "ä hearth");
  assert.equal(new TextDecoder().decode(Uint8Array.from(tube.taken)), "ä hearth");
});

Deno.test("writeBytes() ignores a closed reader, and throws other errors", () => {
  writeBytes(new Tube(3, new Deno.errors.BrokenPipe()), new Uint8Array(10));
  assert.throws(() => writeBytes(new Tube(3, full), new Uint8Array(10)), {
    name: "StartupError",
    message: "The output cannot be written: No space left on device (os error 28)",
  });
});

Deno.test("writeMessage() ignores all errors", () => {
  const tube = new Tube(3, full);
  writeMessage(tube, "hearth");
  assert.equal(tube.taken.length, 3);
});
