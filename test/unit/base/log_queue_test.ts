import assert from "node:assert/strict";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { LogQueue } from "../../../src/base/log.ts";

/** A stream that accepts nothing until it is released. */
class Dam {
  text = "";
  readonly #open = Promise.withResolvers<void>();

  async write(bytes: Uint8Array): Promise<number> {
    await this.#open.promise;
    // A pipe may accept fewer bytes than offered.
    const taken = bytes.subarray(0, 3);
    this.text += new TextDecoder().decode(taken);
    return taken.length;
  }

  open(): void {
    this.#open.resolve();
  }
}

const formatDropped = (count: number) => `(${count} dropped)\n`;

Deno.test("LogQueue drops log lines that do not fit, counts them, and reports them when there is room", async () => {
  const dam = new Dam();
  const queue = new LogQueue(dam, { maxLength: 12, formatDropped });
  for (const line of ["first\n", "other\n", "third\n", "fourth\n"]) queue.push(line);
  assert.equal(queue.numDropped, 2);
  await queue.flush(1);
  assert.equal(dam.text, "", "flush() does not wait for ever");
  dam.open();
  await queue.flush(1_000);
  assert.equal(dam.text, "first\nother\n(2 dropped)\n");
  queue.push("fifth\n");
  await queue.flush(1_000);
  assert.match(dam.text, /dropped\)\nfifth\n$/);
});

Deno.test("LogQueue continues when its stream fails", async () => {
  let tries = 0;
  const broken = {
    write: () => ++tries === 1 ? Promise.reject(new Error("gone")) : Promise.resolve(99),
  };
  const queue = new LogQueue(broken, { maxLength: 100, formatDropped });
  queue.push("a");
  queue.push("b");
  await queue.flush(1_000);
  assert.equal(tries, 2);
});

Deno.test("LogQueue writes waiting log lines together", async () => {
  const writes: string[] = [];
  const first = Promise.withResolvers<void>();
  const target = {
    write: async (bytes: Uint8Array) => {
      writes.push(new TextDecoder().decode(bytes));
      await first.promise;
      return bytes.length;
    },
  };
  const queue = new LogQueue(target, { maxLength: 100_000, formatDropped });
  for (let n = 0; n < 1_000; n++) queue.push(`line ${n}\n`);
  first.resolve();
  await queue.flush(1_000);
  const expected = Array.from({ length: 1_000 }, (_, n) => `line ${n}\n`);
  assert.equal(writes.length, 2);
  assert.equal(writes.join(""), expected.join(""));
});

Deno.test("LogQueue holds little more than the text of thousands of waiting log lines", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const used = () => {
    collect();
    const { heapUsed, external } = Deno.memoryUsage();
    return heapUsed + external;
  };
  const dam = new Dam();
  const queue = new LogQueue(dam, { maxLength: 2 ** 20, formatDropped });
  const before = used();
  let numBytes = 0;
  for (let n = 0; queue.numDropped === 0; n++) {
    // Concatenated from parts, like a log line.
    const fields = [`number=${n}`, `path=/v1/of/line/${n}`, `time=${n / 1_000}`].map((field) =>
      ` ${field}`
    );
    const line = `a line${fields.join("")}\n`;
    queue.push(line);
    numBytes += line.length;
  }
  const heldBytes = used() - before;
  assert.ok(heldBytes < 1.5 * numBytes, `${heldBytes} bytes for ${numBytes}`);
});
