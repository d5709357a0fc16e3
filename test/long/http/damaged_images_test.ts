/** Damaged and hostile images: always 400 or a cut-out, and they leave nothing behind. */
import assert from "node:assert/strict";
import { crc32, deflateSync } from "node:zlib";
import { encodePng } from "../../../src/media/image/png.ts";
import { damage } from "../../fixtures/files/damage.ts";
import { discFile } from "../../fixtures/images/matting.ts";
import { openMattingApp, postImage } from "../../fixtures/servers/matting_server.ts";
import { IMAGES } from "../../fixtures/images/images.ts";
import { Random } from "../../unit/engine/random.ts";

const NUM_FILES = 300;
const MIB = 2 ** 20;

/** A PNG file that declares this size, with any data. */
function pngOfSize(
  width: number,
  height: number,
  data = new Uint8Array(8),
): Uint8Array<ArrayBuffer> {
  const file = encodePng({ width: 1, height: 1, channels: 1, data: Uint8Array.of(0) });
  const view = new DataView(file.buffer);
  view.setUint32(16, width);
  view.setUint32(20, height);
  view.setUint32(29, crc32(file.subarray(12, 29)));
  const packed = deflateSync(data);
  const chunk = new Uint8Array(packed.length + 12);
  const chunkView = new DataView(chunk.buffer);
  chunkView.setUint32(0, packed.length);
  chunk.set(new TextEncoder().encode("IDAT"), 4);
  chunk.set(packed, 8);
  chunkView.setUint32(packed.length + 8, crc32(chunk.subarray(4, packed.length + 8)));
  return new Uint8Array([...file.subarray(0, 33), ...chunk, ...file.subarray(-12)]);
}

function hostileFiles(): Uint8Array<ArrayBuffer>[] {
  const text = (words: string) => new TextEncoder().encode(words);
  return [
    new Uint8Array(),
    text("<svg xmlns='http://www.w3.org/2000/svg'><image href='file:///etc/passwd'/></svg>"),
    text("GIF89a"),
    text("RIFF\xff\xff\xff\x7fWEBPVP8 "),
    text("BM" + "\xff".repeat(60)),
    new Uint8Array(100_000).fill(0xff),
    // Larger than the limit, and larger than can be decoded at all.
    pngOfSize(60_000, 60_000),
    pngOfSize(0x7fffffff, 0x7fffffff),
    pngOfSize(64_001, 1_000),
    pngOfSize(0, 5),
    pngOfSize(65_536, 4),
    // Ten megabytes of zeros in ten kilobytes, for an image of four pixels.
    pngOfSize(2, 2, new Uint8Array(10 * MIB)),
    // An image within the limit with hardly any data.
    pngOfSize(7_000, 7_000),
  ];
}

async function assertRefusedOrCutOut(response: Response, what: string): Promise<boolean> {
  if (response.status === 200) {
    const png = await response.bytes();
    assert.deepEqual([...png.subarray(1, 4)], [...new TextEncoder().encode("PNG")]);
    return true;
  }
  const { error } = await response.json();
  assert.deepEqual(
    [response.status, error.code, error.param],
    [400, "invalid_media", "image"],
    what,
  );
  assert.match(error.message, /^image: ./);
  return false;
}

Deno.test(`remove_background: ${NUM_FILES} damaged or hostile images give 400 or a cut-out`, async () => {
  await using app = await openMattingApp();
  const hostile = hostileFiles();
  const random = new Random(5);
  for (const [index, file] of hostile.entries()) {
    const isCutOut = await assertRefusedOrCutOut(await postImage(app, file), `file ${index}`);
    assert.ok(!isCutOut, `file ${index}`);
  }
  const small = IMAGES.filter(({ width, height }) => width * height < 10_000);
  let numCutOut = 0;
  for (let i = hostile.length; i < NUM_FILES; i++) {
    const { name, file } = small[i % small.length]!;
    const response = await postImage(app, damage(file, random));
    if (await assertRefusedOrCutOut(response, `${name}, damage ${i}`)) numCutOut++;
  }
  assert.ok(numCutOut > 0 && numCutOut < NUM_FILES / 2, `${numCutOut} cut out`);
  assert.equal((await postImage(app, discFile())).status, 200);
  assert.equal(app.session.numInFlight, 0);
  assert.equal(app.session.numLosses, 0);
});
