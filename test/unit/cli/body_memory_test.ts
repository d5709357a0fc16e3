import assert from "node:assert/strict";
import { defaultBodyBytes, readMemoryLimit } from "../../../src/cli/flag_values.ts";

const GIB = 2 ** 30;

function limitWith(files: Readonly<Record<string, string>>): number {
  return readMemoryLimit((path) => {
    const text = files[path];
    if (text === undefined) throw new Deno.errors.NotFound(path);
    return text;
  }, 64 * GIB);
}

Deno.test("readMemoryLimit() returns the limit of the container, the unit, or the machine", () => {
  assert.equal(limitWith({}), 64 * GIB);
  const none = { "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n" };
  assert.equal(limitWith(none), 64 * GIB);
  assert.equal(limitWith({ ...none, "/sys/fs/cgroup/memory.max": `${2 * GIB}\n` }), 2 * GIB);
  const unit = {
    "/proc/self/cgroup": "0::/system.slice/hearth.service\n",
    "/sys/fs/cgroup/system.slice/memory.max": `${8 * GIB}\n`,
    "/sys/fs/cgroup/system.slice/hearth.service/memory.max": "max\n",
  };
  assert.equal(limitWith(unit), 8 * GIB);
  // Version 1, where a number above all memory means no limit.
  const v1 = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
  assert.equal(limitWith({ [v1]: `${4 * GIB}\n` }), 4 * GIB);
  assert.equal(limitWith({ [v1]: "9223372036854771712\n" }), 64 * GIB);
});

Deno.test("defaultBodyBytes() is a share of memory that holds at least one body", () => {
  assert.equal(defaultBodyBytes(Infinity), GIB);
  assert.equal(defaultBodyBytes(16 * GIB), GIB);
  assert.equal(defaultBodyBytes(4 * GIB), GIB / 2);
  assert.equal(defaultBodyBytes(GIB / 2), 128 * 2 ** 20);
});
