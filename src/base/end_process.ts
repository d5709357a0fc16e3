/**
 * Ends the process at once.
 *
 * `Deno.exit` runs the destructors of native libraries while other threads still use them: a server that was told to
 * stop while ONNX Runtime was being loaded died of a corrupted heap once in 75 times. `_exit` of the C library runs
 * none.
 *
 * @module
 */

/** Ends the process with `exitCode`; with `Deno.exit` on other systems than Linux, or without permission. */
export function endProcess(exitCode: number): never {
  if (Deno.build.os === "linux") {
    try {
      Deno.dlopen("libc.so.6", { _exit: { parameters: ["i32"], result: "void" } })
        .symbols._exit(exitCode);
    } catch {
      // Another C library.
    }
  }
  Deno.exit(exitCode);
}
