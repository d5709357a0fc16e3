/** Images of every format, compared with what Pillow decodes, and their colour profiles. */
import assert from "node:assert/strict";
import { assertSameData, assertSameValues } from "../../fixtures/engine/compare_values.ts";
import type { Pixels } from "../../../src/media/pixels.ts";
import { decodeImage, readColorProfile, readImageHeader } from "../../../src/media/image.ts";
import faxRuns from "../../fixtures/images/fax_runs.json" with { type: "json" };
import { imageFile, IMAGES } from "../../fixtures/images/images.ts";
import { swapsSides } from "../../../src/media/image/tiff_tags.ts";
import { deflateSync } from "node:zlib";
import { greyJpeg, pngChunk, pngFile, tiffFile } from "../../fixtures/images/image_writer.ts";
import { decode } from "fast-png";
import { joinBytes } from "../../../src/base/bytes.ts";
import fixtures from "../../fixtures/images/profiles.json" with { type: "json" };
import { mattingTest, postImage } from "../../fixtures/servers/matting_server.ts";

for (const { name, file, width, height, channels, pixels, maxDifference } of IMAGES) {
  Deno.test(`decodeImage() reads ${name}`, async () => {
    const image = await decodeImage(file);
    assert.deepEqual([image.width, image.height, image.channels], [width, height, channels]);
    const difference = image.data.reduce(
      (most, level, i) => Math.max(most, Math.abs(level - pixels[i]!)),
      0,
    );
    assert.ok(difference <= maxDifference, `a pixel is off by ${difference}`);
  });
}

Deno.test("decodeImage() works in a worker without a location, for JPEG, PNG, WebP and AVIF", async () => {
  const url = new URL("../../fixtures/images/image_worker.ts", import.meta.url);
  const worker = new Worker(url, { type: "module" });
  try {
    for (const name of ["jpeg grey", "jpeg CMYK", "png of Pillow", "webp lossy", "avif 4:4:4"]) {
      const { promise, resolve } = Promise.withResolvers<Pixels | string>();
      worker.onmessage = ({ data }) => resolve(data);
      worker.postMessage(imageFile(name));
      assertSameData(await promise as Pixels, await decodeImage(imageFile(name)), name);
    }
  } finally {
    worker.terminate();
  }
});

for (const [kind, file] of Object.entries(faxRuns)) {
  Deno.test(`decodeImage() reads fax runs of every length, by ${kind}`, async () => {
    const { width, height, data } = await decodeImage(Uint8Array.fromBase64(file));
    const runs = [
      ...Array.from({ length: 65 }, (_, i) => i),
      ...Array.from({ length: 40 }, (_, i) => 64 * (i + 1)),
      2559,
      2623,
    ];
    assert.deepEqual([width, height], [2700, runs.length]);
    for (const [y, run] of runs.entries()) {
      const row = Array.from({ length: width }, (_, x) => data[(y * width + x) * 3]);
      const isBlack = (x: number) => x >= run && x < run + Math.max(1, run);
      assert.ok(row.every((level, x) => level === (isBlack(x) ? 0 : 255)), `a run of ${run}`);
    }
  });
}

Deno.test("readImageHeader() returns the stored size of every image, and its orientation", () => {
  for (const { name, file, width, height } of IMAGES) {
    const header = readImageHeader(file);
    const [, orientation = "1"] = /orientation (\d)/.exec(name) ?? [];
    assert.equal(header.orientation, Number(orientation), name);
    const shown = swapsSides(header.orientation)
      ? [header.height, header.width]
      : [header.width, header.height];
    assert.deepEqual(shown, [width, height], name);
  }
});

/** Tags of an 8-bit TIFF file without compression, in one strip of any length at its end. */
function makeTiff(
  tags: Readonly<Record<number, readonly number[]>>,
  data: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const all = { 258: [8], 259: [1], 273: [0], 279: [data.length], ...tags };
  const start = tiffFile(all).length;
  return tiffFile({ ...all, 273: [start] }, data);
}

Deno.test("decodeImage() reads TIFF whose pixels share colours", async () => {
  // Blocks of 2 x 2 pixels: four of brightness, then Cb and Cr. The image ends within the blocks.
  const grey = [10, 20, 30, 40, 128, 128];
  const blocks = [...grey, 50, 0, 60, 0, 128, 128, 70, 80, 0, 0, 128, 128, 90, 0, 0, 0, 128, 255];
  const file = makeTiff(
    { 256: [3], 257: [3], 262: [6], 277: [3], 278: [3], 530: [2, 2] },
    Uint8Array.from(blocks),
  );
  const { data } = await decodeImage(file);
  const reds = Array.from({ length: 9 }, (_, i) => data[3 * i]);
  assert.deepEqual(reds, [10, 20, 50, 30, 40, 60, 70, 80, 255]);
  assert.deepEqual([...data.subarray(24)], [255, 0, 90]);
});

Deno.test("decodeImage() reads TIFF as old programs wrote it", async () => {
  const pixels = Array.from({ length: 16 }, (_, i) => 10 * i);
  const size = { 256: [4], 257: [4], 262: [1], 277: [1] };
  const want = pixels.flatMap((level) => [level, level, level]);
  // LZW with the lowest bits first: nine bits for each code, clear (256) and end (257).
  const packed = new Uint8Array(Math.ceil(18 * 9 / 8));
  for (const [index, code] of [256, ...pixels, 257].entries()) {
    const bits = code << (index * 9 & 7);
    packed[index * 9 >> 3]! |= bits;
    packed[(index * 9 >> 3) + 1]! |= bits >> 8;
  }
  const lzw = await decodeImage(makeTiff({ ...size, 259: [5], 278: [4] }, packed));
  assert.deepEqual([...lzw.data], want);
  // Tiles whose offsets are in the tags of strips.
  const tiled = await decodeImage(
    makeTiff({ ...size, 322: [4], 323: [4] }, Uint8Array.from(pixels)),
  );
  assert.deepEqual([...tiled.data], want);
  // A fourth sample of RGB that no tag explains is alpha.
  const rgba = Uint8Array.from([1, 2, 3, 128]);
  const one = await decodeImage(makeTiff({ 256: [1], 257: [1], 262: [2], 277: [4] }, rgba));
  assert.deepEqual([one.channels, ...one.data], [4, 1, 2, 3, 128]);
});

const EXIF = Uint8Array.fromHex("4d4d002a00000008000101120003000000010006000000000000");
const XMP = text('<rdf:Description tiff:Orientation="8"/>');
const profile = text(`\nexif\n      32\n${text("Exif\0\0").toHex()}${EXIF.toHex()}\n`);

/** Files whose orientation is outside of Exif data, or twice in the file, and what Pillow reads. */
const ORIENTED: Readonly<Record<string, [file: Uint8Array<ArrayBuffer>, orientation: number]>> = {
  "XMP of JPEG": [makeOriented(XMP), 8],
  "Exif of JPEG before XMP": [makeOriented(XMP, EXIF), 6],
  "an element of XMP": [makeOriented(text("<tiff:Orientation>3</tiff:Orientation>")), 3],
  "XMP of PNG": [makeText("iTXt", "XML:com.adobe.xmp", joinBytes([text("\0\0\0\0"), XMP])), 8],
  "compressed XMP of PNG": [
    makeText("iTXt", "XML:com.adobe.xmp", joinBytes([text("\x01\0en\0x\0"), deflateSync(XMP)])),
    8,
  ],
  "ImageMagick's text in PNG": [
    makeText("zTXt", "Raw profile type exif", joinBytes([text("\0"), deflateSync(profile)])),
    6,
  ],
  "a damaged text in PNG": [makeText("zTXt", "Raw profile type exif", text("\0zzz")), 1],
  "8 MB of digits in PNG": [
    makeText("tEXt", "Raw profile type exif", text(`\nexif\n1\n${"ab".repeat(4e6)}`)),
    1,
  ],
  "an odd digit in PNG": [
    makeText("tEXt", "Raw profile type exif", text("\nexif\n1\nabc")),
    1,
  ],
};

function makeOriented(xmp: Uint8Array, exif?: Uint8Array): Uint8Array<ArrayBuffer> {
  const jpeg = greyJpeg(8, 16);
  const segments = [
    joinBytes([text("http://ns.adobe.com/xap/1.0/\0"), xmp]),
    ...(exif === undefined ? [] : [joinBytes([text("Exif\0\0"), exif])]),
  ].map((data) => joinBytes([Uint8Array.of(0xff, 0xe1, 0, data.length + 2), data]));
  return joinBytes([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)]);
}

function makeText(type: string, keyword: string, content: Uint8Array): Uint8Array<ArrayBuffer> {
  return pngFile(8, 16, [pngChunk(type, joinBytes([text(`${keyword}\0`), content]))]);
}

function text(value: string): Uint8Array {
  return new TextEncoder().encode(value);
}

for (const [name, [file, orientation]] of Object.entries(ORIENTED)) {
  Deno.test(`readImageHeader() reads the orientation from ${name}`, () => {
    assert.equal(readImageHeader(file).orientation, orientation);
  });
}

Deno.test("readImageHeader() reads sizes of images with missing data", () => {
  const png = readImageHeader(pngFile(2_000_000_000, 3, []));
  assert.deepEqual([png.format.name, png.width, png.height], ["PNG", 2_000_000_000, 3]);
  const jpeg = readImageHeader(greyJpeg(8, 8).subarray(0, 100));
  assert.deepEqual([jpeg.format.name, jpeg.width, jpeg.height], ["JPEG", 8, 8]);
});

Deno.test("readImageHeader() refuses images without pixels", () => {
  assert.throws(() => readImageHeader(pngFile(0, 5, [])), {
    kind: "invalid_media",
    message: /0 × 5 pixels/,
  });
});

const PROFILE = Uint8Array.fromBase64(fixtures.profile);
const read = (name: keyof typeof fixtures.files) => Uint8Array.fromBase64(fixtures.files[name]);

for (const name of ["PNG", "JPEG", "WEBP", "TIFF", "HEIC", "AVIF"] as const) {
  Deno.test(`readColorProfile() finds the profile of ${name}`, () => {
    assertSameValues(readColorProfile(read(name))!, PROFILE);
  });
}

/** The JPEG file with these parts of a profile, each with its number, instead of its own. */
function makeJpeg(parts: readonly (readonly [number: number, data: Uint8Array])[]) {
  const file = read("JPEG");
  const at = new TextDecoder("latin1").decode(file).indexOf("ICC_PROFILE") - 4;
  const end = at + 2 + new DataView(file.buffer).getUint16(at + 2);
  const segments = parts.map(([number, data]) => {
    const length = data.length + 16;
    const head = [0xff, 0xe2, length >> 8, length & 255];
    const name = new TextEncoder().encode("ICC_PROFILE\0");
    return joinBytes([Uint8Array.from(head), name, Uint8Array.of(number, parts.length), data]);
  });
  return joinBytes([file.subarray(0, at), ...segments, file.subarray(end)]);
}

Deno.test("readColorProfile() joins the segments of JPEG by their numbers", () => {
  const swapped = makeJpeg([[2, PROFILE.subarray(300)], [1, PROFILE.subarray(0, 300)]]);
  assertSameValues(readColorProfile(swapped)!, PROFILE);
});

Deno.test("readColorProfile() ignores a profile of more than 4 MiB", () => {
  for (const numMore of [0, 1]) {
    const profile = new Uint8Array(4 * 2 ** 20 + numMore);
    profile.set(PROFILE);
    const packed = joinBytes([new TextEncoder().encode("x\0\0"), deflateSync(profile)]);
    const png = pngFile(8, 8, [pngChunk("iCCP", packed)]);
    const parts = Array.from(
      { length: 65 },
      (_, i) => [i + 1, profile.subarray(65_000 * i, 65_000 * (i + 1))] as const,
    );
    for (const file of [png, makeJpeg(parts)]) {
      assertSameValues(readColorProfile(file) ?? [], numMore === 0 ? profile : []);
    }
  }
});

Deno.test("readColorProfile() returns nothing without a profile for RGB, and survives truncated files", () => {
  assert.equal(readColorProfile(read("PNG without")), undefined);
  const cmyk = read("WEBP");
  cmyk.set(
    new TextEncoder().encode("CMYK"),
    new TextDecoder("latin1").decode(cmyk).indexOf("RGB "),
  );
  assert.equal(readColorProfile(cmyk), undefined);
  for (const name of ["PNG", "JPEG", "WEBP", "TIFF", "HEIC", "AVIF"] as const) {
    const file = read(name);
    for (let length = 0; length < file.length; length += 13) {
      readColorProfile(file.slice(0, length));
    }
  }
});

mattingTest(
  "remove_background keeps the colour profile, and writes none in masks",
  async (app) => {
    const makeProfile = async (file: Uint8Array<ArrayBuffer>, fields = {}) => {
      const response = await postImage(app, file, fields);
      assert.equal(response.status, 200, await response.clone().text().catch(() => ""));
      return decode(new Uint8Array(await response.arrayBuffer())).iccEmbeddedProfile;
    };
    for (const name of ["PNG", "JPEG", "HEIC"] as const) {
      assertSameValues((await makeProfile(read(name)))!.profile, PROFILE);
    }
    const refined = await makeProfile(read("JPEG"), { refine: "true", crop: "true" });
    assertSameValues(refined!.profile, PROFILE);
    assert.equal(await makeProfile(read("PNG"), { mask_only: "true" }), undefined);
    assert.equal(await makeProfile(read("PNG without")), undefined);
  },
);
