import assert from "node:assert/strict";
import { join } from "node:path";
import { findCacheFolder, listCachedIds, parseHubId } from "../../../src/hub/cache.ts";

Deno.test("findCacheFolder() uses HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME and the home folder, in this order", () => {
  const all = { HF_HUB_CACHE: "/hub", HF_HOME: "/hf", XDG_CACHE_HOME: "/xdg", HOME: "/home/ada" };
  assert.equal(findCacheFolder(all), "/hub");
  assert.equal(findCacheFolder({ ...all, HF_HUB_CACHE: "" }), join("/hf", "hub"));
  assert.equal(
    findCacheFolder({ XDG_CACHE_HOME: "/xdg", HOME: "/home/ada" }),
    join("/xdg", "huggingface", "hub"),
  );
  assert.equal(
    findCacheFolder({ HOME: "/home/ada" }),
    join("/home/ada", ".cache", "huggingface", "hub"),
  );
  assert.equal(
    findCacheFolder({ USERPROFILE: "/users/ada" }),
    join("/users/ada", ".cache", "huggingface", "hub"),
  );
});

Deno.test("parseHubId() refuses names that are not owner/name", () => {
  for (
    const text of ["", "name", "a/b/c", "/a/b", "a/", "../b", "a/..", "a/b@", "a/b@../c", "a b/c"]
  ) {
    assert.equal(parseHubId(text), undefined, text);
  }
});

Deno.test("listCachedIds() reads the ids from the folder names, and none from a missing cache", async () => {
  const cache = await Deno.makeTempDir();
  try {
    await Deno.mkdir(join(cache, "models--Xenova--modnet"));
    await Deno.mkdir(join(cache, "models--nomic-ai--nomic-embed-text-v1.5"));
    await Deno.mkdir(join(cache, "datasets--Xenova--other"));
    await Deno.mkdir(join(cache, ".locks"));
    assert.deepEqual(await listCachedIds(cache), [
      "Xenova/modnet",
      "nomic-ai/nomic-embed-text-v1.5",
    ]);
    assert.deepEqual(await listCachedIds(join(cache, "none")), []);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
});
