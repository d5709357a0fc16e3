/**
 * `deno task bench [name…]`: runs the benchmarks of this folder one after the other, each in its own process; with
 * names, only those whose file name contains one of them. `real …` runs only `real/main.ts`, which takes longer than
 * all others and needs Node and the network.
 *
 * @module
 */
import { fileURLToPath } from "node:url";

const folder = fileURLToPath(new URL("./", import.meta.url));
const isReal = Deno.args[0] === "real";
const files = isReal ? ["real/main.ts"] : [...Deno.readDirSync(folder)]
  .map(({ name }) => name)
  .filter((name) => name.endsWith("_bench.ts"))
  .filter((name) => Deno.args.length === 0 || Deno.args.some((wanted) => name.includes(wanted)))
  .sort();
// Software Vulkan writes a warning to standard error if this is not set.
const runtimeFolder = Deno.env.get("XDG_RUNTIME_DIR") ??
  Deno.makeTempDirSync({ prefix: "hearth-" });

const failed: string[] = [];
for (const file of files) {
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", `${folder}${file}`, ...(isReal ? Deno.args.slice(1) : [])],
    env: { XDG_RUNTIME_DIR: runtimeFolder },
    stdout: "inherit",
    stderr: "inherit",
  }).output();
  if (code !== 0) failed.push(file);
}
if (files.length === 0) {
  failed.push(`no benchmark has a name that contains ${Deno.args.join(" or ")}`);
}
// deno-lint-ignore no-console -- its purpose
if (failed.length > 0) console.error(`Failed: ${failed.join("; ")}`);
Deno.exit(failed.length > 0 ? 1 : 0);
