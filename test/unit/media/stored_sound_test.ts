import assert from "node:assert/strict";
import { assertClose } from "../../fixtures/engine/compare_values.ts";
import { decodeAlac } from "../../../src/media/audio/alac.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import { deflateSync } from "node:zlib";
import { HearthError } from "../../../src/base/errors.ts";
import { joinBytes } from "../../../src/base/bytes.ts";
import {
  decodeWhole,
  makeWav,
  readFixture,
  SPEECH_FILES,
} from "../../fixtures/audio/audio_files.ts";

const folder = new URL("../../fixtures/audio/stored/", import.meta.url);
const NAMES = [...Deno.readDirSync(folder)].map(({ name }) => name)
  .filter((name) => !/\.(?:f32|sh|py)$|^depth/.test(name)).sort();
/** Sampling rates of the files, if not 8 kHz. */
const RATES_HZ: Readonly<Record<string, number>> = { "opus.caf": 48_000, "mp2.caf": 16_000 };
/** Decoders of these formats compute in floating point, each in its own order. */
const TOLERANCES: Readonly<Record<string, number>> = {
  "opus.caf": 4e-3,
  "mp3.wav": 1e-5,
  "mp2.caf": 1e-4,
};

/** The average of the channels decoded by ffmpeg. */
function readExpected(name: string): Float32Array {
  const recorded = NAMES.includes(name) && exists(`${name}.f32`) ? `${name}.f32` : "stereo.f32";
  const values = new Float32Array(Deno.readFileSync(new URL(recorded, folder)).buffer);
  if (name.startsWith("gsm")) return values;
  return Float32Array.from(
    { length: values.length / 2 },
    (_, i) => (values[2 * i]! + values[2 * i + 1]!) * 0.5,
  );
}

function exists(name: string): boolean {
  return [...Deno.readDirSync(folder)].some((entry) => entry.name === name);
}

for (const name of NAMES) {
  Deno.test(`decodeAudio() reads ${name} like ffmpeg`, async () => {
    const file = Deno.readFileSync(new URL(name, folder));
    const decoded = await decodeWhole(file, RATES_HZ[name] ?? 8_000);
    const expected = readExpected(name);
    assert.equal(decoded.length, expected.length);
    assertClose(decoded, expected, { abs: TOLERANCES[name] ?? 0 });
  });
}

/** The sample of `make_flac.py`, in integer steps of its depth, rounded to even like in Python. */
function makeSample(i: number, phase: number, bits: number): number {
  const wave = Math.sin(i * 0.1 + phase);
  const value = i < 200
    ? 0.01 * wave
    : i < 300
    ? 0.25
    : i === 400
    ? -1
    : 0.9 * wave * Math.sin(i * i);
  const steps = value * 2 ** (bits - 1);
  const isHalf = steps - Math.floor(steps) === 0.5;
  return (isHalf ? 2 * Math.round(steps / 2) : Math.round(steps)) / 2 ** (bits - 1);
}

for (let bits = 4; bits <= 32; bits++) {
  Deno.test(`decodeAudio() reads FLAC of ${bits} bits exactly`, async () => {
    const file = Deno.readFileSync(new URL(`depth${bits}.flac`, folder));
    const decoded = await decodeWhole(file, 8_000);
    const expected = Float32Array.from(
      { length: 600 },
      (_, i) => (makeSample(i, 0, bits) + makeSample(i, 1, bits)) / 2,
    );
    assert.equal(decoded.length, expected.length);
    assertClose(decoded, expected, { abs: 2 ** -23 });
  });
}

Deno.test("decodeAudio() reads WAV whose samples of 24 bits are stored in 32", async () => {
  const values = Float32Array.from({ length: 100 }, (_, i) => Math.sin(i));
  const file = makeWav(values, { bits: 32 });
  file[34] = 24;
  assertClose(await decodeWhole(file), values, { abs: 1e-6 });
});

for (
  const name of ["../speech.wav", "s16be.caf", "s16be.au", "../speech_48k_stereo.opus", "s16le.mkv"]
) {
  Deno.test(`decodeAudio() reads ${name} after an ID3 tag`, async () => {
    const file = Deno.readFileSync(new URL(name, folder));
    const tag = Uint8Array.of(0x49, 0x44, 0x33, 3, 0, 0, 0, 0, 0, 20, ...new Uint8Array(20));
    assertClose(await decodeWhole(joinBytes([tag, file])), await decodeWhole(file), { abs: 0 });
  });
}

/** Makes an element of Matroska with a size of two bytes. */
function makeElement(id: string, ...parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const content = joinBytes(parts);
  const size = Uint8Array.of(0x40 | content.length >> 8, content.length & 255);
  return joinBytes([Uint8Array.fromHex(id), size, content]);
}

/** Makes a Matroska file of 16-bit sound at 8 kHz whose frames are stored in an encoding. */
function makeEncodedMkv(
  encoding: readonly Uint8Array[],
  frames: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  const track = makeElement(
    "ae",
    makeElement("d7", Uint8Array.of(1)),
    makeElement("83", Uint8Array.of(2)),
    makeElement("86", new TextEncoder().encode("A_PCM/INT/LIT")),
    makeElement("6d80", makeElement("6240", ...encoding)),
    makeElement("e1", makeElement("9f", Uint8Array.of(1)), makeElement("6264", Uint8Array.of(16))),
  );
  const blocks = frames.map((frame) => makeElement("a3", Uint8Array.of(0x81, 0, 0, 0x80), frame));
  return joinBytes([
    makeElement("1a45dfa3"),
    makeElement("18538067", makeElement("1654ae6b", track), makeElement("1f43b675", ...blocks)),
  ]);
}

Deno.test("decodeAudio() reads Matroska whose frames are compressed", async () => {
  const frames = [Uint8Array.of(0, 64, 0, 32), Uint8Array.of(0, 64, 0, 192)];
  const compression = (...parts: Uint8Array[]) => [makeElement("5034", ...parts)];
  const removed = compression(
    makeElement("4254", Uint8Array.of(3)),
    makeElement("4255", Uint8Array.of(0, 64)),
  );
  const files = {
    zlib: makeEncodedMkv(compression(), frames.map((frame) => deflateSync(frame))),
    "removed beginnings": makeEncodedMkv(removed, frames.map((frame) => frame.subarray(2))),
  };
  for (const [name, file] of Object.entries(files)) {
    assert.deepEqual([...await decodeWhole(file, 8_000)], [0.5, 0.25, 0.5, -0.5], name);
  }
  const refused = {
    "compressed by algorithm 2": compression(makeElement("4254", Uint8Array.of(2))),
    "sound is encrypted": [makeElement("5035")],
  };
  for (const [message, encoding] of Object.entries(refused)) {
    await assert.rejects(decodeWhole(makeEncodedMkv(encoding, frames), 8_000), {
      kind: "invalid_media",
      message: new RegExp(message),
    });
  }
  const damaged = makeEncodedMkv(compression(), frames);
  await assert.rejects(decodeWhole(damaged, 8_000), /a compressed frame cannot be read/);
});

Deno.test("decodeAlac() leaves out damaged packets", async () => {
  const file = Deno.readFileSync(new URL("alac.caf", folder));
  const readChunk = (type: string) => {
    const at = new TextDecoder("latin1").decode(file).indexOf(type) + 4;
    return file.subarray(at + 8, at + 8 + Number(new DataView(file.buffer).getBigInt64(at)));
  };
  const packet = readChunk("data").subarray(4);
  const packets = [packet, packet.subarray(0, -20), packet];
  const sounds = await Array.fromAsync(decodeAlac(readChunk("kuki"), packets));
  assert.equal(sounds.length, 2);
  assertClose(sounds[1]!.channels[0]!, sounds[0]!.channels[0]!, { abs: 0 });
});

Deno.test("decodeAudio() does not take a tag after the boxes of MP4 for a cut", async () => {
  const file = readFixture("speech_44k_stereo.m4a");
  const tagged = joinBytes([file, new TextEncoder().encode("TAG".padEnd(128, "x"))]);
  const onTruncated = (message: string) => assert.fail(message);
  const sound = decodeAudio(tagged, { sampleRateHz: 44_100, onTruncated });
  for await (const chunk of sound) assert.ok(chunk.length >= 0);
});

/** Files of each container that is readable from its beginning. */
const CUT_FILES = [
  ...SPEECH_FILES.filter((name) => !/m4a$|48k_opus\.mp4$/.test(name)).map((name) => `../${name}`),
  ...[
    "ima.wav",
    "ms.wav",
    "gsm.wav",
    "mp3.wav",
    "s16be.au",
    "s16be.caf",
    "ima.aifc",
    "s16le.w64",
    "s16le.mkv",
  ],
];

for (const name of CUT_FILES) {
  Deno.test(`decodeAudio() decodes a truncated ${name} as far as possible, and reports the truncation`, async () => {
    const file = Deno.readFileSync(new URL(name, folder));
    const whole = await decodeWhole(file);
    let longest = 0;
    for (let tenth = 1; tenth <= 10; tenth++) {
      let message: string | undefined;
      const cut = file.slice(0, Math.floor(file.length * tenth / 11));
      let numSamples = 0;
      try {
        const sound = decodeAudio(cut, {
          sampleRateHz: 16_000,
          onTruncated: (text) => message = text,
        });
        for await (const piece of sound) numSamples += piece.length;
      } catch (error) {
        // Headers alone contain no sound.
        assert.ok(error instanceof HearthError && tenth <= 6, `${name}, ${tenth}: ${error}`);
        continue;
      }
      assert.match(message ?? "", /was cut or is damaged: /, `${name}, ${tenth}`);
      assert.ok(numSamples >= longest && numSamples <= whole.length + 1, `${name}, ${tenth}`);
      longest = numSamples;
    }
    assert.ok(longest > 0.7 * whole.length, `${name}: ${longest} of ${whole.length}`);
  });
}

Deno.test("decodeAudio() uses the louder channel if the channels cancel each other", async () => {
  const wave = Float32Array.from({ length: 4_000 }, (_, i) => 0.5 * Math.sin(i * 0.05));
  const inverted = Float32Array.from(
    { length: 8_000 },
    (_, i) => i % 2 === 0 ? wave[i >> 1]! : -0.98 * wave[i >> 1]!,
  );
  assertClose(await decodeWhole(makeWav(inverted, { numChannels: 2 })), wave, { abs: 1e-4 });
  const silence = makeWav(new Float32Array(2_000), { numChannels: 2 });
  assert.ok((await decodeWhole(silence)).every((sample) => sample === 0));
});

Deno.test("decodeAudio() averages channels that only cancel each other for a few samples", async () => {
  // WAV is decoded in chunks of 32,768 samples; the channels are opposite in the three samples after the first chunk.
  const numSamples = 32_768 + 3;
  const mono = new Float32Array(numSamples).fill(0.5);
  const stereo = Float32Array.from({ length: 2 * numSamples }, (_, i) => {
    const isOpposite = i >> 1 >= 32_768 && i % 2 === 1;
    return isOpposite ? -0.5 : 0.5;
  });
  mono.fill(0, 32_768);
  assertClose(await decodeWhole(makeWav(stereo, { numChannels: 2 })), mono, { abs: 1e-4 });
});
