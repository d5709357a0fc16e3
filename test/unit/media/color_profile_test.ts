/** Colour profiles of files that Pillow and libheif wrote, and what becomes of them. */
import assert from "node:assert/strict";
import { decode } from "fast-png";
import { readColorProfile } from "../../../src/media/image_header.ts";
import { joinBytes } from "../../../src/base/join_bytes.ts";
import fixtures from "../../fixtures/images/profiles.json" with { type: "json" };
import { assertSameValues } from "../../fixtures/engine/compare_values.ts";
import { mattingTest, postImage } from "../../fixtures/servers/matting_server.ts";

const PROFILE = Uint8Array.fromBase64(fixtures.profile);
const read = (name: keyof typeof fixtures.files) => Uint8Array.fromBase64(fixtures.files[name]);

for (const name of ["PNG", "JPEG", "WEBP", "TIFF", "HEIC", "AVIF"] as const) {
  Deno.test(`readColorProfile() finds the profile of ${name}`, () => {
    assertSameValues(readColorProfile(read(name))!, PROFILE);
  });
}

Deno.test("readColorProfile() joins the segments of JPEG by their numbers", () => {
  const file = read("JPEG");
  const at = new TextDecoder("latin1").decode(file).indexOf("ICC_PROFILE") - 4;
  const end = at + 2 + new DataView(file.buffer).getUint16(at + 2);
  const segment = (number: number, data: Uint8Array) => {
    const length = data.length + 16;
    const head = [0xff, 0xe2, length >> 8, length & 255];
    const name = new TextEncoder().encode("ICC_PROFILE\0");
    return joinBytes([Uint8Array.from(head), name, Uint8Array.of(number, 2), data]);
  };
  const swapped = joinBytes([
    file.subarray(0, at),
    segment(2, PROFILE.subarray(300)),
    segment(1, PROFILE.subarray(0, 300)),
    file.subarray(end),
  ]);
  assertSameValues(readColorProfile(swapped)!, PROFILE);
});

Deno.test("readColorProfile() gives none where there is none, or one for other colours", () => {
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

mattingTest("remove_background keeps the colour profile, but not with a mask", async (app) => {
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
});
