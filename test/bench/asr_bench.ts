/**
 * Compares transcription with transformers.js: the same folder, weights, device and recordings, alternating in one
 * process per device, medians of several rounds.
 *
 *     deno task bench asr
 *     deno run -A test/bench/asr_bench.ts webgpu "30 s"
 *     deno run -A test/bench/asr_bench.ts --memory
 *
 * @module
 */
import { benchEachDevice, type IsWanted } from "./each_device.ts";
import { CpuBackend } from "../../src/device/cpu/cpu.ts";
import { WebGpuBackend } from "../../src/device/webgpu/webgpu.ts";
import { openDevice } from "../../src/gpu/device.ts";
import type { AsrModel } from "../../src/models/asr/asr.ts";
import { loadWithModels } from "../fixtures/engine/transformers_sessions.ts";
import { peerSessions } from "./peer_sessions.ts";
import { findModelFolder } from "../fixtures/engine/goldens.ts";
import { findSpeechFolder } from "../fixtures/audio/speech.ts";
import { transcribeFile, withAsr } from "../fixtures/audio/transcribe.ts";
import { median, printTable, time } from "./report.ts";

const MODEL = "hearth-demo-asr";
const ROUNDS = 3;
/** Rounds of a measurement that takes little time. */
const WORD_ROUNDS = 7;
const SAMPLE_RATE_HZ = 16_000;
const WAV_HEADER_BYTES = 44;
const NUM_UPLOADS = 3;
const NUM_REPEATS = 200;
const NUM_AT_ONCE = 8;
/** Measures memory on a software adapter too, which takes minutes. */
const MEMORY_FLAG = "--memory";

/** The first seconds of a WAV file of 16-bit samples at 16 kHz. */
function cutWav(file: Uint8Array<ArrayBuffer>, seconds: number): Uint8Array<ArrayBuffer> {
  const cut = file.slice(0, WAV_HEADER_BYTES + 2 * SAMPLE_RATE_HZ * seconds);
  new DataView(cut.buffer).setUint32(40, cut.length - WAV_HEADER_BYTES, true);
  return cut;
}

function getSamples(wav: Uint8Array<ArrayBuffer>): Float32Array {
  return Float32Array.from(new Int16Array(wav.buffer, WAV_HEADER_BYTES), (value) => value / 32768);
}

type Transcribe = (wav: Uint8Array<ArrayBuffer>) => Promise<string>;

async function makeTheirs(device: GPUDevice | undefined): Promise<Transcribe> {
  const modelsFolder = `${findModelFolder(MODEL)}/..`;
  const { pipeline } = await loadWithModels({ openModel: peerSessions(device), modelsFolder });
  const recognise = await pipeline("automatic-speech-recognition", MODEL, {
    dtype: "fp32",
    device: "auto",
  });
  return async (wav) => {
    const heard = await recognise(getSamples(wav), { language: "en", return_timestamps: true });
    return (Array.isArray(heard) ? heard[0]! : heard).text.trim();
  };
}

async function compare(
  label: string,
  contenders: { ours: Transcribe; theirs: Transcribe },
  wav: Uint8Array<ArrayBuffer>,
): Promise<string[]> {
  const times = { ours: [] as number[], theirs: [] as number[] };
  const texts = { ours: "", theirs: "" };
  for (let round = 0; round <= ROUNDS; round++) {
    for (const name of ["ours", "theirs"] as const) {
      const ms = await time(async () => void (texts[name] = await contenders[name](wav)));
      // The first round warms up.
      if (round > 0) times[name].push(ms);
    }
  }
  const [ours, theirs] = [median(times.ours), median(times.theirs)];
  const same = texts.ours === texts.theirs ? "" : ", other words";
  return [
    `${label}, ms${same}`,
    ours.toFixed(0),
    theirs.toFixed(0),
    `${(theirs / ours).toFixed(1)}×`,
  ];
}

/** Compares uploads that arrive together with the same uploads one after the other. */
async function timeTogether(model: AsrModel, wav: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const uploads = Array.from({ length: NUM_UPLOADS }, () => wav);
  const times = { together: [] as number[], inTurn: [] as number[] };
  for (let round = 0; round <= ROUNDS; round++) {
    const together = await time(() =>
      Promise.all(uploads.map((each) => transcribeFile(model, each)))
    );
    const inTurn = await time(async () => {
      for (const each of uploads) await transcribeFile(model, each);
    });
    if (round === 0) continue;
    times.together.push(together);
    times.inTurn.push(inTurn);
  }
  const [together, inTurn] = [median(times.together), median(times.inTurn)];
  return [
    `${NUM_UPLOADS} clips at once, against one after the other, ms`,
    together.toFixed(0),
    inTurn.toFixed(0),
    `${(inTurn / together).toFixed(1)}×`,
  ];
}

/** Measures the additional cost of word times. */
async function timeWords(model: AsrModel, wav: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const times = { with: [] as number[], without: [] as number[] };
  for (let round = 0; round <= WORD_ROUNDS; round++) {
    for (const name of ["with", "without"] as const) {
      const task = { language: "en", timesWords: name === "with" };
      const ms = await time(() => transcribeFile(model, wav.slice(), task));
      if (round > 0) times[name].push(ms);
    }
  }
  const [withWords, without] = [median(times.with), median(times.without)];
  return [
    "30 s of speech with times of words, against without, ms",
    withWords.toFixed(0),
    without.toFixed(0),
    `${(withWords - without).toFixed(0)} ms more`,
  ];
}

/** Measures memory over many clips, eight at a time. Once every shape has occurred, it must not grow. */
async function measureMemory(model: AsrModel, wav: Uint8Array<ArrayBuffer>): Promise<string[]> {
  const residentMb = () => Deno.memoryUsage().rss / 2 ** 20;
  const hear = async (count: number) => {
    for (let done = 0; done < count; done += NUM_AT_ONCE) {
      const batch = Array.from({ length: NUM_AT_ONCE }, () => transcribeFile(model, wav));
      await Promise.all(batch);
    }
  };
  await hear(NUM_REPEATS / 4);
  const before = residentMb();
  await hear(NUM_REPEATS);
  const after = residentMb();
  return [
    `resident MiB before and after ${NUM_REPEATS} clips`,
    before.toFixed(0),
    after.toFixed(0),
    `${(after / before).toFixed(2)}×`,
  ];
}

async function benchDevice(name: string, isWanted: IsWanted): Promise<void> {
  const speech = `${findSpeechFolder()}/demo`;
  const long = await Deno.readFile(`${speech}/long_40s.wav`);
  const clip = await Deno.readFile(`${speech}/04_voice.wav`);
  const gpu = name === "webgpu" ? await openDevice({ allowFallback: true }) : undefined;
  const backend = gpu ? await WebGpuBackend.create(gpu) : new CpuBackend();
  const theirs = await makeTheirs(gpu?.device);
  await withAsr({ backend, dtype: "fp32" }, async (model) => {
    const ours: Transcribe = async (wav) =>
      (await transcribeFile(model, wav, { language: "en" })).text;
    const looksAtMemory = gpu?.isFallbackAdapter !== true || Deno.args.includes(MEMORY_FLAG);
    const parts: Readonly<Record<string, (label: string) => Promise<string[]>>> = {
      "30 s of speech": (label) => compare(label, { ours, theirs }, cutWav(long, 30)),
      "a clip of 1.6 s": (label) => compare(label, { ours, theirs }, clip),
      "times of words": () => timeWords(model, cutWav(long, 30)),
      "clips at once": () => timeTogether(model, clip),
      ...(looksAtMemory ? { memory: () => measureMemory(model, clip) } : {}),
    };
    const rows: string[][] = [];
    for (const [label, part] of Object.entries(parts)) {
      if (isWanted(label)) rows.push(await part(label));
    }
    printTable([backend.adapter, "Hearth", "transformers.js", "ratio"], rows);
  });
}

await benchEachDevice(import.meta.filename!, benchDevice);
