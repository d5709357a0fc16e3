/**
 * Embeddings beside transformers.js's feature-extraction pipeline: the same folder, weights, device and texts, in turn
 * in one process, medians of several rounds; then over a real port, and memory over ten thousand requests.
 *
 *     deno task bench embedding [cpu|webgpu]
 *
 * @module
 */
import { CpuBackend } from "../../src/backend/cpu.ts";
import { WebGpuBackend } from "../../src/backend/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import { EncoderTokenizer } from "../../src/models/encoder_tokenizer.ts";
import { openFolder } from "../../src/models/folder.ts";
import { loadTransformers } from "../../src/onnx/hook.ts";
import { findModelFolder } from "../fixtures/goldens.ts";
import { HearthProcess } from "../fixtures/hearth_process.ts";
import { embed, openModel } from "../fixtures/model.ts";
import { readRetrievalSet } from "../fixtures/retrieval.ts";

import { Random } from "../unit/engine/random.ts";
import { median, printTable, time } from "./report.ts";

const MODEL = "hearth-demo-embed";
const FOLDER = findModelFolder(MODEL)!;
const NUM_CLIENTS = 64;
const SHORT = "How do I boil an egg?";

/** What is measured on a device: a software adapter is so slow that it gets less to do. */
const SIZES = {
  cpu: { numTexts: 1000, listLength: 250, rounds: 3, numShort: 300 },
  webgpu: { numTexts: 64, listLength: 64, rounds: 2, numShort: 30 },
} as const;

type Device = keyof typeof SIZES;

/** Something that embeds. */
interface Contender {
  embed(texts: readonly string[]): Promise<unknown>;
}

/** Texts of 5 to `maxTokens` tokens, each length as likely as any other. */
async function makeTexts(count: number, maxTokens: number): Promise<string[]> {
  const tokenizer = await EncoderTokenizer.load(await openFolder(FOLDER));
  const words = readRetrievalSet()!.passages.flatMap(({ text }) => text.split(" "));
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

/** In turn, so that what else the machine does hits all alike. */
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
  const model = await openModel(FOLDER, { backend });
  const transformers = await loadTransformers({
    device: gpu?.device,
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

async function overHttp(server: HearthProcess): Promise<Contender> {
  const base = await server.ready();
  return {
    embed: async (input) => {
      const response = await fetch(`${base}/v1/embeddings`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ input, encoding_format: "base64" }),
      });
      await response.json();
      if (!response.ok) throw new Error(`The server answered ${response.status}.`);
    },
  };
}

async function benchDevice(device: Device): Promise<string[][]> {
  const { numTexts, listLength, rounds, numShort } = SIZES[device];
  const contenders = await openContenders(device);
  if (contenders === undefined) return [[`${device}: no adapter`, "", "", ""]];
  const { hearth, theirs, adapter } = contenders;
  await using server = startServer(device);
  const http = await overHttp(server);
  const rows: string[][] = [];
  const add = (what: string, unit: number, times: Record<string, number>) => {
    const show = (ms: number) => unit > 0 ? (1000 * unit / ms).toFixed(0) : ms.toFixed(2);
    const ratio = (times["theirs"]! / times["hearth"]!).toFixed(1);
    const [mine, ported, other] = [times["hearth"]!, times["http"]!, times["theirs"]!];
    rows.push([`${adapter}: ${what}`, show(mine), show(ported), show(other), `${ratio}×`]);
  };

  for (const contender of [hearth, theirs, http]) {
    await inLists(contender, Array(device === "cpu" ? 200 : 3).fill(SHORT), 1)();
  }
  for (const maxTokens of [400, 32]) {
    const texts = await makeTexts(numTexts, maxTokens);
    await hearth.embed(texts);
    const what = `${numTexts} texts of 5 to ${maxTokens} tokens`;
    add(
      `${what}, one list, texts/s (theirs: lists of ${listLength})`,
      numTexts,
      await compare({
        hearth: () => hearth.embed(texts),
        http: () => http.embed(texts),
        theirs: inLists(theirs, texts, listLength),
      }, maxTokens === 400 ? 1 : rounds),
    );
    add(
      `${what}, one by one from ${NUM_CLIENTS} clients, texts/s`,
      numTexts,
      await compare({
        hearth: () => oneByOne(hearth, texts),
        http: () => oneByOne(http, texts),
        theirs: () => oneByOne(theirs, texts),
      }, rounds),
    );
  }
  add(
    `one text of 9 tokens, p50 of ${numShort}, ms`,
    0,
    await compare({
      hearth: () => hearth.embed([SHORT]),
      http: () => http.embed([SHORT]),
      theirs: () => theirs.embed([SHORT]),
    }, numShort),
  );
  return rows;
}

/** Resident memory of a server while requests of many lengths come in. */
async function benchMemory(): Promise<void> {
  const texts = await makeTexts(1000, 120);
  await using server = startServer("cpu");
  const http = await overHttp(server);
  const row: string[] = [];
  for (let thousand = 0; thousand <= 10; thousand++) {
    if (thousand > 0) await oneByOne(http, texts);
    if (thousand % 2 === 0) row.push((await residentMib(server.pid)).toFixed(0));
  }
  const header = [0, 2, 4, 6, 8, 10].map((thousand) => `after ${thousand},000 requests, MiB`);
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
      ["embeddings", "Hearth", "over HTTP", "transformers.js", "ratio"],
      await benchDevice(device),
    );
  }
  await benchMemory();
  Deno.exit(0);
}
