import assert from "node:assert/strict";
import { assertClose } from "../../fixtures/engine/compare_values.ts";
import { decodeAudio } from "../../../src/media/audio.ts";
import {
  decodeWhole,
  makeWav,
  RATE_HZ,
  type WavOptions,
} from "../../fixtures/audio/audio_files.ts";

const TONE = Float64Array.from({ length: 3001 }, (_, i) => 0.9 * Math.sin(i * 0.05));

const ENCODINGS: Readonly<Record<string, { options: WavOptions; error: number }>> = {
  "8 bits": { options: { bits: 8 }, error: 2 ** -8 },
  "16 bits": { options: { bits: 16 }, error: 2 ** -16 },
  "24 bits": { options: { bits: 24 }, error: 2 ** -23 },
  "32 bits": { options: { bits: 32 }, error: 2 ** -24 },
  "floating point": { options: { bits: 32, isFloat: true }, error: 2 ** -24 },
  "double floating point": { options: { bits: 64, isFloat: true }, error: 2 ** -24 },
  "24 bits, extensible": { options: { bits: 24, isExtensible: true }, error: 2 ** -23 },
  "floating point, extensible": {
    options: { bits: 32, isFloat: true, isExtensible: true },
    error: 2 ** -24,
  },
};

async function assertInvalid(file: Uint8Array<ArrayBuffer>, message: RegExp): Promise<void> {
  await assert.rejects(decodeWhole(file), { name: "HearthError", kind: "invalid_media", message });
}

for (const [name, { options, error }] of Object.entries(ENCODINGS)) {
  Deno.test(`readWav() reads ${name}`, async () => {
    assertClose(await decodeWhole(makeWav(TONE, options)), TONE, { abs: error });
  });
}

/** By ITU-T G.711: the encoding's number, and the 16-bit values of every sixteenth code, counted from 0. */
const TELEPHONY: Readonly<Record<string, readonly [encoding: number, values: string]>> = {
  "A-law": [
    6,
    "-5504 -2752 -22016 -11008 -344 -88 -1376 -688 5504 2752 22016 11008 344 88 1376 688",
  ],
  "mu-law": [
    7,
    "-32124 -15996 -7932 -3900 -1884 -876 -372 -120 32124 15996 7932 3900 1884 876 372 120",
  ],
};

for (const [name, [encoding, listed]] of Object.entries(TELEPHONY)) {
  const values = listed.split(" ").map(Number);
  Deno.test(`readWav() reads ${name}`, async () => {
    const codes = values.map((_, i) => i * 16);
    const file = makeWav(codes, { bits: 8 });
    file[20] = encoding;
    file.set(codes, file.length - codes.length);
    assertClose(await decodeWhole(file), values.map((value) => value / 2 ** 15), { abs: 0 });
  });
}

for (let numChannels = 1; numChannels <= 8; numChannels++) {
  Deno.test(`decodeAudio() averages ${numChannels} channels`, async () => {
    const frames = 1000;
    const samples = Float64Array.from(
      { length: frames * numChannels },
      (_, i) => Math.sin(Math.floor(i / numChannels) * 0.1) * (i % numChannels + 1) / 10,
    );
    const gain = (numChannels + 1) / 2 / 10;
    const wanted = Float64Array.from({ length: frames }, (_, i) => Math.sin(i * 0.1) * gain);
    assertClose(await decodeWhole(makeWav(samples, { numChannels, bits: 24 })), wanted, {
      abs: 2 ** -22,
    });
  });
}

Deno.test("readWav() skips other chunks, padded to an even size", async () => {
  const extraChunks = Uint8Array.of(...new TextEncoder().encode("LIST"), 3, 0, 0, 0, 1, 2, 3, 0);
  assertClose(await decodeWhole(makeWav(TONE, { extraChunks })), TONE, { abs: 2 ** -16 });
});

Deno.test("readWav() reads to the end if a pipe left the size unknown", async () => {
  for (const claimedBytes of [0, 0xffff_ffff, 0x7fff_f000, 0x7fff_ffff]) {
    assertClose(await decodeWhole(makeWav(TONE, { claimedBytes })), TONE, { abs: 2 ** -16 });
  }
});

Deno.test("readWav() reads a size of 64 bits from the chunk ds64", async () => {
  for (const signature of ["RF64", "BW64"]) {
    const file = makeRf64(TONE.subarray(0, 1000), { signature, dataBytes: 2000 });
    const tail = new TextEncoder().encode("LIST\x04\0\0\0junk");
    assertClose(
      await decodeWhole(new Uint8Array([...file, ...tail])),
      TONE.subarray(0, 1000),
      { abs: 2 ** -16 },
    );
    let message = "";
    const cut = decodeAudio(file.slice(0, -9), {
      sampleRateHz: RATE_HZ,
      onTruncated: (text) => message = text,
    });
    assert.equal((await Array.fromAsync(cut)).reduce((sum, { length }) => sum + length, 0), 995);
    assert.match(message, /promises 2000 bytes .* 1991 are there/);
    const streamed = makeRf64(TONE, { signature, dataBytes: 0 });
    assertClose(await decodeWhole(streamed), TONE, { abs: 2 ** -16 });
  }
});

/**
 * By EBU Tech 3306: all bits of the 32-bit sizes are set, and the 64-bit sizes come before the
 * format.
 */
function makeRf64(
  samples: ArrayLike<number>,
  { signature, dataBytes }: { signature: string; dataBytes: number },
): Uint8Array<ArrayBuffer> {
  const wav = makeWav(samples, { claimedBytes: 0xffff_ffff });
  const sizes = new DataView(new ArrayBuffer(28));
  sizes.setBigUint64(0, BigInt(wav.length + 28), true);
  sizes.setBigUint64(8, BigInt(dataBytes), true);
  const text = (value: string) => new TextEncoder().encode(value);
  return new Uint8Array([
    ...text(signature),
    ...[255, 255, 255, 255],
    ...text("WAVEds64\x1c\0\0\0"),
    ...new Uint8Array(sizes.buffer),
    ...wav.subarray(12),
  ]);
}

Deno.test("readWav() ends at the size in its header", async () => {
  const samples = await decodeWhole(makeWav(TONE, { claimedBytes: 2000 }));
  assertClose(samples, TONE.subarray(0, 1000), { abs: 2 ** -16 });
});

Deno.test("readWav() refuses a file without sound", async () => {
  await assertInvalid(makeWav([]), /holds no sound/);
  await assertInvalid(makeWav(TONE).slice(0, 30), /cut short|ends before/);
  await assertInvalid(makeWav(TONE).slice(0, 12), /ends before its data/);
});

Deno.test("readWav() refuses invalid headers, naming their values", async () => {
  const spoil = (at: number, value: number) => {
    const file = makeWav(TONE);
    new DataView(file.buffer).setUint16(at, value, true);
    return file;
  };
  await assertInvalid(spoil(22, 0), /0 channels; 1 to 8/);
  await assertInvalid(spoil(22, 9), /9 channels; 1 to 8/);
  await assertInvalid(spoil(32, 3), /3 bytes to 1 samples of 16 bits/);
  await assertInvalid(spoil(20, 2), /gives 2 bytes to a block; at least 8/);
  await assertInvalid(spoil(20, 99), /sound is of encoding 99 with 16 bits; PCM/);
  await assertInvalid(makeWav(TONE, { sampleRateHz: 0 }), /sample rate of 0 Hz/);
  await assertInvalid(
    makeWav(TONE, { sampleRateHz: 4_000_000_000 }),
    /sample rate of 4000000000 Hz/,
  );
});

Deno.test("readWav() reads samples whose header gives blocks too small for them, as ffmpeg does", async () => {
  for (const blockBytes of [0, 1]) {
    const file = makeWav(TONE);
    new DataView(file.buffer).setUint16(32, blockBytes, true);
    assertClose(await decodeWhole(file), TONE, { abs: 2 ** -16 });
  }
});

Deno.test("decodeAudio() treats NaN, infinite and absurdly large samples as silence", async () => {
  const samples = [0.5, NaN, Infinity, -Infinity, 1e30, -0.5];
  const decoded = await decodeWhole(makeWav(samples, { bits: 32, isFloat: true }));
  assert.deepEqual([...decoded], [0.5, 0, 0, 0, 0, -0.5]);
});

Deno.test("decodeAudio() returns a long file in small chunks, and lets other work run", async () => {
  const minutes = 3;
  const numSamples = minutes * 60 * 44_100;
  const file = makeWav(new Int8Array(numSamples), { sampleRateHz: 44_100, bits: 8 });
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  let longest = 0;
  let total = 0;
  for await (const { length } of decodeAudio(file, { sampleRateHz: RATE_HZ })) {
    longest = Math.max(longest, length);
    total += length;
  }
  clearInterval(timer);
  assert.equal(total, minutes * 60 * RATE_HZ);
  assert.ok(longest <= 65_536, `a chunk of ${longest} samples`);
  assert.ok(turns > 10, `${turns} iterations for other work`);
});
