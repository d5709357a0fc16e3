// deno-lint-ignore triple-slash-reference -- functions that run in the browser need its types
/// <reference lib="dom" />
/**
 * Every kind of program also compiles in Chromium, whose WGSL compiler (Tint) refuses some code that Deno's (naga)
 * accepts.
 */
import assert from "node:assert/strict";
import type { Browser, Page } from "puppeteer-core";
import { BROWSER_PATH, openBrowser } from "../../fixtures/page/browser.ts";
import type { RecordedProgram } from "../../fixtures/engine/recording_gpu.ts";
import { collectPrograms } from "../../kernels/every_program.ts";

/** Enables Chromium's own software adapter, which it does not use by default. */
const FLAGS = [
  "--enable-unsafe-webgpu",
  "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan",
];
/** Programs per call of the browser. */
const AT_ONCE = 50;

/** A page that may use WebGPU: it needs a local address. */
async function openPage(browser: Browser, port: number): Promise<Page> {
  const page = await browser.newPage();
  await page.goto(`http://localhost:${port}/`);
  return page;
}

/** Whether the browser's adapter supports half precision; undefined without an adapter. */
function hasF16(page: Page): Promise<boolean | undefined> {
  return page.evaluate(async () => {
    const adapter = await (navigator.gpu as GPU | undefined)?.requestAdapter();
    return adapter?.features.has("shader-f16");
  });
}

/** Errors of the browser's compiler about sources. */
function check(page: Page, sources: readonly string[]): Promise<string[]> {
  return page.evaluate(async (sources) => {
    const adapter = await navigator.gpu.requestAdapter();
    const requiredFeatures = adapter!.features.has("shader-f16") ? ["shader-f16" as const] : [];
    const device = await adapter!.requestDevice({ requiredFeatures });
    const faults = await Promise.all(sources.map(async (code) => {
      const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
      return messages.filter(({ type }) => type === "error")
        .map(({ message, lineNum }) => `${message}: ${code.split("\n")[lineNum - 1]!.trim()}`);
    }));
    device.destroy();
    return faults.flat();
  }, sources as string[]);
}

/** Errors of the browser about whole programs, with their bindings and constants. */
function compile(page: Page, programs: readonly RecordedProgram[]): Promise<string[]> {
  return page.evaluate(async (programs) => {
    const adapter = await navigator.gpu.requestAdapter();
    const requiredFeatures = adapter!.features.has("shader-f16") ? ["shader-f16" as const] : [];
    const device = await adapter!.requestDevice({ requiredFeatures });
    const compiled = await Promise.all(
      programs.map(({ entryPoint, source, constants, bindings }) => {
        const entries = bindings.map((type, binding) => ({
          ...{ binding, visibility: GPUShaderStage.COMPUTE },
          buffer: { type },
        }));
        const bindGroupLayouts = [device.createBindGroupLayout({ entries })];
        const module = device.createShaderModule({ code: source });
        return device.createComputePipelineAsync({
          layout: device.createPipelineLayout({ bindGroupLayouts }),
          compute: { module, entryPoint, constants },
        }).then(() => [], ({ message }: Error) => [`${entryPoint}: ${message}`]);
      }),
    );
    device.destroy();
    return compiled.flat();
  }, programs as RecordedProgram[]);
}

/** A variant of a program for adapters without half precision, with f32 instead of f16. */
function inSinglePrecision(program: RecordedProgram): RecordedProgram {
  const source = program.source.replaceAll("enable f16;", "").replaceAll(/\bf16\b/g, "f32");
  return { ...program, source };
}

async function compileAll(
  page: Page,
  adapt: (program: RecordedProgram) => RecordedProgram,
): Promise<void> {
  const programs = collectPrograms().map(adapt);
  const sources = [...new Set(programs.map(({ source }) => source))];
  for (let at = 0; at < sources.length; at += AT_ONCE) {
    const faults = await check(page, sources.slice(at, at + AT_ONCE));
    assert.deepEqual([...new Set(faults)], []);
  }
  // Of each entry point, only the shortest program: Chromium's software adapter compiles long ones slowly.
  const shortest = programs.toSorted((a, b) => b.source.length - a.source.length)
    .map((program) => [program.entryPoint, program] as const);
  assert.deepEqual(await compile(page, [...new Map(shortest).values()]), []);
}

Deno.test({
  name: "every kind of program compiles in Chromium",
  ignore: BROWSER_PATH === undefined,
  fn: async (t) => {
    const server = Deno.serve(
      { port: 0, onListen: () => {} },
      () => new Response("<!doctype html>", { headers: { "content-type": "text/html" } }),
    );
    const browser = await openBrowser(FLAGS);
    try {
      const page = await openPage(browser, server.addr.port);
      const isHalf = await hasF16(page);
      assert.ok(isHalf !== undefined, "Chromium has no WebGPU adapter, not even its own.");
      const how = isHalf ? "as they are" : "in f32: Chromium's adapter has no f16";
      await t.step(how, () => compileAll(page, isHalf ? (each) => each : inSinglePrecision));
    } finally {
      await browser.close();
      await server.shutdown();
    }
  },
});
