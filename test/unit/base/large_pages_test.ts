import assert from "node:assert/strict";
import { adviseLargePages } from "../../../src/base/memory.ts";

/** Linux's flags of the mapping that begins at an address. */
function flagsAt(address: bigint): string[] {
  const smaps = Deno.readTextFileSync("/proc/self/smaps");
  const start = smaps.search(new RegExp(`^${address.toString(16).padStart(8, "0")}-`, "m"));
  return /^VmFlags: (.*)$/m.exec(smaps.slice(start))![1]!.trim().split(" ");
}

Deno.test("adviseLargePages() requests large pages only for this memory", {
  ignore: Deno.build.os !== "linux" || !("UnsafePointer" in Deno),
}, () => {
  const computeAddress = ({ buffer }: WebAssembly.Memory) =>
    Deno.UnsafePointer.value(Deno.UnsafePointer.of(new Uint8Array(buffer as ArrayBuffer)));
  const [advised, other] = [128, 192].map((pages) =>
    new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true })
  ) as [WebAssembly.Memory, WebAssembly.Memory];
  adviseLargePages(advised);
  assert.ok(flagsAt(computeAddress(advised)).includes("hg"));
  assert.ok(!flagsAt(computeAddress(other)).includes("hg"));
});
