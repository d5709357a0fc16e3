import assert from "node:assert/strict";
import { readAvailableBytes, readMemoryLimit } from "../../../src/base/memory_limit.ts";

const GIB = 2 ** 30;

/** A reader of these files, which throws for other paths, as Deno does. */
function makeReader(files: Readonly<Record<string, string>>) {
  return (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Deno.errors.NotFound(path);
    return text;
  };
}

const UNIT = "/sys/fs/cgroup/system.slice/hearth.service";
/** A systemd unit in a slice that has a limit. */
const IN_SLICE = {
  "/proc/self/cgroup": "0::/system.slice/hearth.service\n",
  "/sys/fs/cgroup/system.slice/memory.max": `${8 * GIB}\n`,
  "/sys/fs/cgroup/system.slice/memory.current": `${7 * GIB}\n`,
  "/sys/fs/cgroup/system.slice/memory.stat": `anon ${5 * GIB}\ninactive_file ${2 * GIB}\n`,
  [`${UNIT}/memory.max`]: "max\n",
  [`${UNIT}/memory.current`]: `${GIB}\n`,
};

const V1 = "/sys/fs/cgroup/memory";
/**
 * A group of version 1. The root's limit is a number above all memory, which means that it has
 * none.
 */
const IN_V1 = {
  "/proc/self/cgroup": "4:cpu,memory:/jobs/hearth\n0::/\n",
  [`${V1}/memory.limit_in_bytes`]: "9223372036854771712\n",
  [`${V1}/jobs/hearth/memory.limit_in_bytes`]: `${4 * GIB}\n`,
  [`${V1}/jobs/hearth/memory.usage_in_bytes`]: `${2 * GIB}\n`,
  [`${V1}/jobs/hearth/memory.stat`]: `inactive_file 5\ntotal_inactive_file ${GIB}\n`,
};

Deno.test("readMemoryLimit() returns the limit of the container, the unit, or the machine", () => {
  const readLimit = (files: Readonly<Record<string, string>>) =>
    readMemoryLimit(makeReader(files), 64 * GIB);
  assert.equal(readLimit({}), 64 * GIB);
  const none = { "/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n" };
  assert.equal(readLimit(none), 64 * GIB);
  assert.equal(readLimit({ ...none, "/sys/fs/cgroup/memory.max": `${2 * GIB}\n` }), 2 * GIB);
  assert.equal(readLimit(IN_SLICE), 8 * GIB);
  assert.equal(readLimit({ [`${V1}/memory.limit_in_bytes`]: `${4 * GIB}\n` }), 4 * GIB);
  assert.equal(readLimit(IN_V1), 4 * GIB);
  assert.equal(readMemoryLimit(makeReader({}), 0), Infinity);
});

Deno.test("readAvailableBytes() returns what the machine and all control groups leave", () => {
  const readLeft = (files: Readonly<Record<string, string>>) =>
    readAvailableBytes(makeReader(files), { available: 32 * GIB, free: GIB });
  assert.equal(readLeft({}), 32 * GIB);
  assert.equal(readLeft(IN_SLICE), 3 * GIB);
  assert.equal(readLeft({ ...IN_SLICE, [`${UNIT}/memory.max`]: `${2 * GIB}\n` }), GIB);
  assert.equal(readLeft(IN_V1), 3 * GIB);
  assert.equal(readLeft({ ...IN_V1, [`${V1}/jobs/hearth/memory.stat`]: "" }), 2 * GIB);
  // A limit may be lowered below what is in use.
  const lowered = { [`${UNIT}/memory.max`]: `${GIB / 2}\n` };
  assert.equal(readLeft({ ...IN_SLICE, ...lowered }), 0);
});

Deno.test("readAvailableBytes() reads the free memory where Deno reports no available memory, as on Windows", () => {
  const none = makeReader({});
  assert.equal(readAvailableBytes(none, { available: 0, free: 5 * GIB }), 5 * GIB);
  assert.equal(readAvailableBytes(none, { available: 6 * GIB, free: GIB }), 6 * GIB);
  assert.equal(readAvailableBytes(none, { available: 0, free: 0 }), undefined);
});
