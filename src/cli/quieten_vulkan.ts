/**
 * Mesa's software Vulkan writes an "error" about `XDG_RUNTIME_DIR` where that is unset, although it does not use it.
 *
 * @module
 */
import { tmpdir } from "node:os";

/** Sets the variable for this process, before an adapter is looked for. */
export function quietenVulkan(): void {
  if (Deno.build.os === "linux" && !Deno.env.get("XDG_RUNTIME_DIR")) {
    Deno.env.set("XDG_RUNTIME_DIR", tmpdir());
  }
}
