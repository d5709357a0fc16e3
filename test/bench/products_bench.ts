/**
 * ONNX Runtime's matrix products on the CPU, as it comes and with those that are exchanged in it: each in a process of
 * its own, in turn, best of several rounds.
 *
 *     deno task bench products
 *
 * @module
 */
import { openSession, runtime, RUNTIME_WASM, Tensor } from "../../src/onnx/ort.ts";
import { writeOneNodeModel } from "./one_node_model.ts";
import { printTable, time } from "./report.ts";

/** Rows, columns of the first matrix, columns of the second: one token, a batch of a small encoder, and a wider one. */
const SIZES = [[1, 384, 1536], [512, 128, 512], [512, 384, 1536]] as const;
const ROUNDS = 60;
const TURNS = 3;

/** Milliseconds of a product of each size, the best of many. */
async function measure(): Promise<number[]> {
  const matrix = (name: string, ...dims: string[]) => ({ name, elem: "f32", dims }) as const;
  const model = writeOneNodeModel({
    opType: "MatMul",
    domain: "",
    inputs: [matrix("a", "m", "k"), matrix("b", "k", "n")],
    outputs: [matrix("c", "m", "n")],
    attributes: {},
  });
  const session = await openSession(model);
  const best: number[] = [];
  for (const [m, k, n] of SIZES) {
    const feeds = {
      a: new Tensor("float32", new Float32Array(m * k).fill(0.5), [m, k]),
      b: new Tensor("float32", new Float32Array(k * n).fill(0.5), [k, n]),
    };
    const times: number[] = [];
    for (let round = 0; round < ROUNDS; round++) times.push(await time(() => session.run(feeds)));
    best.push(Math.min(...times));
  }
  return best;
}

async function measureElsewhere(which: "stock" | "own"): Promise<number[]> {
  const args = ["run", "-A", "--no-check", import.meta.filename!, which];
  const { stdout } = await new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output();
  return JSON.parse(new TextDecoder().decode(stdout));
}

const [which] = Deno.args;
if (which === "stock" || which === "own") {
  if (which === "stock") runtime.env.wasm.wasmBinary = await Deno.readFile(RUNTIME_WASM);
  Deno.stdout.writeSync(new TextEncoder().encode(JSON.stringify(await measure())));
  Deno.exit(0);
}
const best = { own: SIZES.map(() => Infinity), stock: SIZES.map(() => Infinity) };
for (let turn = 0; turn < TURNS; turn++) {
  for (const side of ["own", "stock"] as const) {
    const times = await measureElsewhere(side);
    best[side] = best[side].map((ms, size) => Math.min(ms, times[size]!));
  }
}
printTable(
  ["product, ms", "Hearth's", "as it comes", "ratio"],
  SIZES.map(([m, k, n], size) => {
    const [own, stock] = [best.own[size]!, best.stock[size]!];
    const ratio = `${(stock / own).toFixed(2)}×`;
    return [`[${m}, ${k}] by [${k}, ${n}]`, own.toFixed(2), stock.toFixed(2), ratio];
  }),
);
