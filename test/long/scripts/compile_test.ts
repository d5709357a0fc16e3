import assert from "node:assert/strict";
import { basename, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { compileArguments, INCLUDES, KEPT_FOLDERS } from "../../../scripts/compile.ts";
import { documentFile } from "../../fixtures/documents/documents.ts";
import { imageFile } from "../../fixtures/images/images.ts";

const REPOSITORY = fileURLToPath(new URL("../../../", import.meta.url));
const MB = 1e6;
/** Maximum size of the embedded files, models included; the runtime is not among them. */
const MOST_EMBEDDED_BYTES = 122 * MB;

/**
 * The one import whose name is computed at run time. Its package cannot be embedded yet, so it is left out, and the
 * program falls back on onnxruntime-web.
 */
const LEFT_OUT = {
  module: "src/device/ort/ort.ts",
  name: "PACKAGE",
  value: "onnxruntime-node",
};

/** Output of a run. Standard error is separate, because it also reports downloaded packages. */
interface Written {
  readonly stdout: string;
  readonly stderr: string;
}

async function run(args: readonly string[], env: Record<string, string> = {}): Promise<Written> {
  const output = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    cwd: REPOSITORY,
    env: { NO_COLOR: "1", ...env },
  }).output();
  const decoder = new TextDecoder();
  const stdout = decoder.decode(output.stdout);
  const stderr = decoder.decode(output.stderr);
  assert.ok(output.success, (stdout + stderr).slice(0, 2000));
  return { stdout, stderr };
}

interface GraphModule {
  readonly kind: string;
  readonly specifier: string;
  readonly error?: string;
}

/** The modules in the compiler's graph: those of the program and of the modules it includes. */
async function readGraph(): Promise<readonly GraphModule[]> {
  const entries = ["main.ts", ...INCLUDES.filter((path) => path.endsWith(".ts"))];
  const modules: GraphModule[] = [];
  // One after the other: with an empty cache each would download every package.
  for (const entry of entries) {
    const { stdout } = await run(["info", "--json", entry]);
    modules.push(...JSON.parse(stdout).modules);
  }
  return modules;
}

async function ownModules(): Promise<string[]> {
  const files = (await readGraph()).map(({ specifier }) => specifier);
  const own = files.filter((file) => file.startsWith("file:") && file.endsWith(".ts"));
  return [...new Set(own.map((file) => fileURLToPath(file)))].filter((file) =>
    file.startsWith(REPOSITORY)
  );
}

Deno.test("the module graph contains every import: none has a name computed at run time, and none fails", async () => {
  for (const { specifier, error } of await readGraph()) {
    assert.equal(error, undefined, specifier);
  }
  const modules = await ownModules();
  assert.ok(modules.length > 100);
  for (const path of modules) {
    const source = await Deno.readTextFile(path);
    for (const [call, argument = ""] of source.matchAll(/\bimport\(\s*([^)]*)/g)) {
      if (relative(REPOSITORY, path) === LEFT_OUT.module && argument === LEFT_OUT.name) {
        assert.ok(source.includes(`const ${LEFT_OUT.name} = "${LEFT_OUT.value}";`));
        continue;
      }
      assert.match(argument, /^"[^"]+"/, `${path}: ${call}`);
    }
  }
});

Deno.test("the files that modules name by URL are those that the compiler includes", async () => {
  const modules = new Set(await ownModules());
  const urls: string[] = [];
  for (const path of modules) {
    const source = await Deno.readTextFile(path);
    for (const [, target = ""] of source.matchAll(/new URL\("([^"]+)", import\.meta\.url\)/g)) {
      urls.push(relative(REPOSITORY, join(dirname(path), target)));
    }
  }
  assert.deepEqual([...new Set(urls)].sort(), [...INCLUDES].sort());
});

Deno.test("every file read at run time is a module, an included file, or a kept file of its package", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const kept = KEPT_FOLDERS.flatMap(({ kept }) => kept);
    const read = new Set<string>();
    const image = join(folder, "image.jpg");
    await Deno.writeFile(image, imageFile("jpeg progressive"));
    const photo = join(folder, "photo.heic");
    await Deno.writeFile(photo, imageFile("heic 10 bits"));
    const paper = join(folder, "paper.pdf");
    await Deno.writeFile(paper, documentFile("text"));
    const uses = [
      ["run", "hearth-demo-matting", "-i", image, "-o", join(folder, "cut_out.png")],
      ["run", "hearth-demo-matting", "-i", photo, "-o", join(folder, "cut_out.png")],
      ["run", "hearth-demo-ocr", "-i", paper],
      ["run", "hearth-demo-chat", "-i", "What does a cow say?", "--max-tokens", "2"],
      ["run", "hearth-demo-embed", "-i", "a cow"],
      ["list"],
    ];
    for (const [index, words] of uses.entries()) {
      // Deno logs each use of a permission.
      const audit = join(folder, `${index}.jsonl`);
      const device = words[0] === "run" ? ["--device", "cpu"] : [];
      await run(["run", "-A", "--no-check", "main.ts", ...words, ...device], {
        DENO_AUDIT_PERMISSIONS: audit,
        HF_HUB_CACHE: folder,
      });
      for (const line of (await Deno.readTextFile(audit)).trim().split("\n")) {
        const { permission, value } = JSON.parse(line);
        if (permission === "read") read.add(value);
      }
    }
    const modules = new Set((await readGraph()).map(({ specifier }) => specifier));
    let numAssets = 0;
    for (const path of read) {
      if (modules.has(path)) continue;
      if (path.startsWith(REPOSITORY)) {
        numAssets++;
        const own = relative(REPOSITORY, path);
        assert.ok(INCLUDES.some((included) => `${own}/`.startsWith(`${included}/`)), own);
      } else if (/onnxruntime-web|swagger-ui-dist|@jsquash|libheif|@embedpdf/.test(path)) {
        numAssets++;
        assert.ok(kept.includes(basename(path)), path);
      } else {
        assert.doesNotMatch(path, /[\\/]npm[\\/].*[\\/]\d+\.\d+\.\d+[\\/]/);
      }
    }
    assert.ok(numAssets > 5);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test({
  name:
    "deno compile embeds one build of ONNX Runtime, the models, and no package that is not used",
  // On other systems the substitute for the runtime has another format.
  ignore: Deno.build.os !== "linux",
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      // Only the embedded files matter here, not the runtime, which would have to be downloaded.
      const { stdout, stderr } = await run(compileArguments(join(folder, "hearth")), {
        DENORT_BIN: "/bin/true",
      });
      const log = stdout + stderr;
      assert.match(log, /models\/\* \(\d/);
      assert.match(log, / worker\.ts \(/);
      // One build has less than 20 MB; with a second one, of at least 14 MB, there would be more.
      assert.match(log, /onnxruntime-web\/.* \(1\d(\.\d+)?MB/);
      for (const name of ["openai", "imagescript", "onnxruntime-node", "sharp", "typescript"]) {
        assert.ok(!new RegExp(`[ /]${name}[/ ]`).test(log), name);
      }
      const { size } = await Deno.stat(join(folder, "hearth"));
      assert.ok(size > 50 * MB && size < MOST_EMBEDDED_BYTES, String(size));
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});

Deno.test("--permissive excludes only the package that contains eSpeak NG", () => {
  const usual = compileArguments("dist/hearth");
  const permissive = compileArguments("dist/hearth", undefined, { isPermissive: true });
  const more = permissive.filter((argument) => !usual.includes(argument));
  assert.equal(more.length, 1);
  assert.match(more[0]!, /^--exclude=.*[\\/]phonemizer[\\/]\d+\.\d+\.\d+[\\/]?$/);
});
