/**
 * Compares embeddings with transformers.js's feature-extraction pipeline on the same folder, weights, device and texts.
 * The two programs take turns; where there are several rounds, the medians are reported.
 *
 * First in this process: both programs use Hearth's ONNX Runtime, with its faster matrix products, and transformers.js
 * gets one call after the other. Then over HTTP: Hearth's server, and a plain Deno server around the pipeline on an
 * unchanged ONNX Runtime (`transformers_server.ts`), each in its own process, get the same requests. This also reports
 * the CPU time of both servers, which other work on the machine hardly affects. Last, the resident memory of Hearth's
 * server over ten thousand requests.
 *
 *     deno task bench embedding
 *     deno run -A --no-check test/bench/embedding_bench.ts cpu|webgpu
 *
 * @module
 */
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { EncoderTokenizer } from "../../src/models/embedding/encoder_tokenizer.ts";
import { openFolder } from "../../src/hub/model_folder.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { HearthProcess } from "../fixtures/servers/hearth_process.ts";
import { embed, openModel } from "../fixtures/engine/model.ts";
import { readRetrievalSet } from "../fixtures/text/retrieval.ts";

import { Random } from "../unit/engine/random.ts";
import { median, printTable, time } from "./report.ts";

const MODEL = "hearth-demo-embed";
const FOLDER = findModelFolder(MODEL)!;
const NUM_CLIENTS = 64;
const SHORT = "How do I boil an egg?";

/** Amounts of work for each device; WebGPU gets less, so that a software adapter finishes too. */
const SIZES = {
  cpu: { listTexts: 1000, clientTexts: 256, listLength: 250, rounds: 2, numShort: 300 },
  webgpu: { listTexts: 12, clientTexts: 12, listLength: 12, rounds: 1, numShort: 20 },
} as const;

type Device = keyof typeof SIZES;

/** Numbers of requests after which resident memory is read. */
const MEMORY_READ_AFTER = [0, 500, 1000, 2000, 5000, 10_000];

/** A program that embeds. */
interface Contender {
  embed(texts: readonly string[]): Promise<unknown>;
}

/** Texts of 5 to `maxTokens` tokens, with all lengths equally likely. */
async function makeTexts(count: number, maxTokens: number): Promise<string[]> {
  const tokenizer = await EncoderTokenizer.load(await openFolder(FOLDER));
  const words = readRetrievalSet().passages.flatMap(({ text }) => text.split(" "));
  const random = new Random(1);
  return Array.from({ length: count }, () => {
    const numTokens = random.between(5, maxTokens) - tokenizer.numSpecial;
    const text: string[] = [];
    let length = 0;
    for (let at = random.between(0, words.length - 1); length < numTokens; at++) {
      const word = words[at % words.length]!;
      length += tokenizer.encode(word).length;
      if (length <= numTokens) text.push(word);
    }
    return text.join(" ") || "egg";
  });
}

async function oneByOne(contender: Contender, texts: readonly string[]): Promise<void> {
  let next = 0;
  const client = async () => {
    while (next < texts.length) await contender.embed([texts[next++]!]);
  };
  await Promise.all(Array.from({ length: NUM_CLIENTS }, client));
}

/** Alternates between contenders, so that other work on the machine affects all of them. */
async function compare(
  contenders: Readonly<Record<string, (round: number) => Promise<unknown>>>,
  rounds: number,
): Promise<Record<string, number>> {
  const times: Record<string, number[]> = {};
  for (let round = 0; round < rounds; round++) {
    for (const [name, work] of Object.entries(contenders)) {
      (times[name] ??= []).push(await time(() => work(round)));
    }
  }
  return Object.fromEntries(Object.entries(times).map(([name, all]) => [name, median(all)]));
}

function inLists(contender: Contender, texts: readonly string[], length: number) {
  return async () => {
    for (let at = 0; at < texts.length; at += length) {
      await contender.embed(texts.slice(at, at + length));
    }
  };
}

async function openContenders(device: Device) {
  const gpu = device === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  if (device === "webgpu" && gpu === undefined) return undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const model = await openModel(FOLDER, { backend, cpuThreads: navigator.hardwareConcurrency });
  const transformers = await loadWithModels({
    openModel: peerSessions(gpu?.device),
    modelsFolder: `${FOLDER}/..`,
  });
  const pipeline = await transformers.pipeline("feature-extraction", MODEL, {
    device: "auto",
    dtype: "fp32",
  });
  const hearth: Contender = { embed: (texts) => embed(model, texts) };
  const theirs: Contender = {
    embed: (texts) => pipeline([...texts], { pooling: "mean", normalize: true }),
  };
  return { hearth, theirs, adapter: backend.adapter };
}

/** A server in its own process. */
function startServer(device: Device): HearthProcess {
  const flags = ["--device", device, "--dtype", "fp32", "--log-level", "error"];
  return new HearthProcess(["-m", MODEL, "-p", "0", ...flags]);
}

/** transformers.js behind a plain server, in its own process. */
class TransformersProcess implements AsyncDisposable {
  readonly #process: Deno.ChildProcess;
  readonly base: Promise<string>;
  readonly pid: number;

  constructor(device: Device) {
    const script = new URL("./transformers_server.ts", import.meta.url).pathname;
    const args = ["run", "-A", "--no-check", script, `${FOLDER}/..`, MODEL, device];
    this.#process = new Deno.Command(Deno.execPath(), { args, stdout: "piped", stderr: "null" })
      .spawn();
    this.pid = this.#process.pid;
    this.base = readLine(this.#process.stdout).then((port) => `http://127.0.0.1:${port}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#process.kill();
    await this.#process.status;
  }
}

async function readLine(stream: ReadableStream<Uint8Array>): Promise<string> {
  let text = "";
  for await (const chunk of stream.values({ preventCancel: true })) {
    text += new TextDecoder().decode(chunk);
    if (text.includes("\n")) break;
  }
  return text.trim();
}

function overHttp(base: string): Contender {
  return {
    embed: async (input) => {
      const response = await fetch(`${base}/v1/embeddings`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ input }),
      });
      await response.json();
      if (!response.ok) throw new Error(`The server answered ${response.status}.`);
    },
  };
}

async function benchDevice(device: Device): Promise<string[][]> {
  const { listTexts, clientTexts, listLength, rounds, numShort } = SIZES[device];
  const local = await openContenders(device);
  if (local === undefined) return [[`${device}: no adapter`]];
  await using server = startServer(device);
  await using plain = new TransformersProcess(device);
  const { hearth, theirs } = local;
  const contenders = {
    hearth,
    theirs,
    hearthHttp: overHttp(await server.ready()),
    theirsHttp: overHttp(await plain.base),
  };
  const pids = { hearthHttp: server.pid, theirsHttp: plain.pid };
  const rows: string[][] = [];
  const add = (what: string, unit: number, times: Record<string, number>) => {
    const { hearth, theirs, hearthHttp, theirsHttp } = times as Record<
      keyof typeof contenders,
      number
    >;
    const cpu = Object.keys(pids).map((name) => times[`${name}Cpu`]);
    const show = (ms: number) => unit > 0 ? (1000 * unit / ms).toFixed(0) : ms.toFixed(2);
    const ratio = (ours: number, other: number) => `${(other / ours).toFixed(1)}×`;
    rows.push([
      `${local.adapter}: ${what}`,
      ...[show(hearth), show(theirs), ratio(hearth, theirs)],
      ...[show(hearthHttp), show(theirsHttp), ratio(hearthHttp, theirsHttp)],
      unit > 0 ? cpu.map((ms) => (ms! / unit).toFixed(1)).join(" / ") : "",
    ]);
  };
  const race = async (
    work: (contender: Contender, isTheirs: boolean) => () => Promise<unknown>,
    numRounds: number,
  ) => {
    const runs = Object.fromEntries(
      Object.entries(contenders).map((
        [name, each],
      ) => [name, work(each, name.startsWith("theirs"))]),
    );
    const cpu: Record<string, number> = {};
    for (const [name, pid] of Object.entries(pids)) {
      const run = runs[name]!;
      const key = `${name}Cpu`;
      runs[name] = async () => {
        const before = cpuMs(pid);
        await run();
        cpu[key] = (cpu[key] ?? 0) + (cpuMs(pid) - before) / numRounds;
      };
    }
    return { ...await compare(runs, numRounds), ...cpu };
  };

  for (const contender of Object.values(contenders)) {
    await inLists(contender, Array(device === "cpu" ? 200 : 3).fill(SHORT), 1)();
  }
  for (const maxTokens of [400, 32]) {
    const texts = await makeTexts(listTexts, maxTokens);
    await hearth.embed(texts);
    await contenders.hearthHttp.embed(texts);
    const lengths = `of 5 to ${maxTokens} tokens`;
    add(
      `${listTexts} texts ${lengths} as one list (theirs: lists of ${listLength}), texts/s`,
      listTexts,
      await race(
        (contender, isTheirs) => inLists(contender, texts, isTheirs ? listLength : texts.length),
        maxTokens === 400 ? 1 : rounds,
      ),
    );
    const singles = texts.slice(0, clientTexts);
    add(
      `${clientTexts} texts ${lengths}, one by one from ${NUM_CLIENTS} clients, texts/s`,
      clientTexts,
      await race((contender) => () => oneByOne(contender, singles), rounds),
    );
  }
  add(
    `one text of 9 tokens, p50 of ${numShort}, ms`,
    0,
    await race((contender) => () => contender.embed([SHORT]), numShort),
  );
  return rows;
}

/** CPU time of all threads of a process in milliseconds; NaN if the system does not provide it. */
function cpuMs(pid: number): number {
  if (Deno.build.os !== "linux") return NaN;
  const fields = Deno.readTextFileSync(`/proc/${pid}/stat`).split(") ")[1]!.split(" ");
  // User and system time, in hundredths of a second.
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** Resident memory of a server while requests of many lengths come in. */
async function benchMemory(): Promise<void> {
  const texts = await makeTexts(1000, 120);
  await using server = startServer("cpu");
  const http = overHttp(await server.ready());
  const row: string[] = [];
  let done = 0;
  for (const count of MEMORY_READ_AFTER) {
    for (; done < count; done += 500) await oneByOne(http, texts.slice(done % 1000).slice(0, 500));
    row.push((await residentMib(server.pid)).toFixed(0));
  }
  const header = MEMORY_READ_AFTER.map((count) => `after ${count} requests, MiB`);
  printTable(header, [row]);
}

async function residentMib(pid: number): Promise<number> {
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "rss=", "-p", `${pid}`] })
    .output();
  return Number(new TextDecoder().decode(stdout)) / 1024;
}

if (import.meta.main) {
  const chosen = Deno.args[0];
  const devices = chosen === undefined ? ["cpu", "webgpu"] as const : [chosen as Device];
  for (const device of devices) {
    printTable(
      [
        "embeddings",
        "Hearth",
        "transformers.js",
        "ratio",
        "Hearth, HTTP",
        "transformers.js, HTTP",
        "ratio",
        "CPU time, HTTP, ms a text",
      ],
      await benchDevice(device),
    );
  }
  await benchMemory();
  Deno.exit(0);
}
