/**
 * Background removal: shows the image before and after, optionally with a new background. Several images are processed
 * one after the other.
 *
 * @module
 */
import { zipSync } from "fflate";
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import { Check, Failure, formatMs } from "./controls.tsx";
import { FileDrop, IMAGE_FORMATS, SaveButton, useObjectUrl } from "./files.tsx";
import { RequestCode } from "./request_code.tsx";
import { call, type PageProps, useWork } from "./server.ts";

const PATH = "v1/images/remove_background";

interface Options {
  readonly background: string;
  readonly hasBackground: boolean;
  readonly maskOnly: boolean;
  readonly crop: boolean;
  readonly refine: boolean;
}

interface Result {
  readonly before: File;
  /** The result; absent if it failed. */
  readonly after?: Blob;
  readonly failure?: string;
  /** Whether the result was cropped. Then it does not cover the original when laid over it. */
  readonly isCropped: boolean;
}

export function MattingPage({ info }: PageProps): JSX.Element {
  const [files, setFiles] = useState<readonly File[]>([]);
  const [results, setResults] = useState<readonly Result[]>([]);
  const [options, setOptions] = useState<Options>({
    background: "#ffffff",
    hasBackground: false,
    maskOnly: false,
    crop: false,
    refine: false,
  });
  const work = useWork();
  const cutOut = (images: readonly File[], wanted: Options) =>
    work.start(async (signal) => {
      if (images !== files) setResults([]);
      setFiles(images);
      const done: Result[] = [];
      for (const before of images) {
        const result = { before, isCropped: wanted.crop };
        try {
          done.push({ ...result, after: await requestOne(before, { info, wanted, signal }) });
        } catch (error) {
          if (signal.aborted || images.length === 1) throw error;
          done.push({ ...result, failure: (error as Error).message });
        }
        setResults([...done]);
      }
    });
  const choose = (change: Partial<Options>) => {
    const next = { ...options, ...change };
    setOptions(next);
    if (files.length > 0) cutOut(files, next);
  };
  const [only] = results;
  return (
    <main class="wide">
      <h1>Remove a background</h1>
      <FileDrop
        accept="image/*,.heic,.heif"
        label="Drop or paste images"
        formats={IMAGE_FORMATS}
        multiple
        onFiles={(images) => cutOut(images, options)}
      />
      <OptionRow options={options} onChange={choose} />
      <Failure message={work.failure} />
      {work.isBusy && (
        <div class="row">
          <span class="soft dots" role="status">
            {files.length > 1 ? `${results.length} of ${files.length} done` : "Working"}
          </span>
          <button type="button" onClick={work.stop}>Stop</button>
        </div>
      )}
      {files.length > 1 ? <Batch results={results} isBusy={work.isBusy} /> : only?.after && (
        <>
          <BeforeAfter before={only.before} after={only.after} isCropped={only.isCropped} />
          <div class="row">
            <SaveButton name="cut_out.png" make={() => only.after!}>Download PNG</SaveButton>
            <CopyImageButton image={only.after} />
            {work.tookMs !== undefined && <span class="soft">{formatMs(work.tookMs)}</span>}
          </div>
        </>
      )}
      <RequestCode
        request={{
          path: PATH,
          file: `image=${files[0]?.name ?? "photo.jpg"}`,
          form: [["model", info.id], ...toFormFields(options)],
          output: "cut_out.png",
        }}
      />
    </main>
  );
}

async function requestOne(image: File, { info, wanted, signal }: {
  readonly info: PageProps["info"];
  readonly wanted: Options;
  readonly signal: AbortSignal;
}): Promise<Blob> {
  const body = new FormData();
  body.append("model", info.id);
  body.append("image", image);
  for (const [name, value] of toFormFields(wanted)) body.append(name, value);
  return await (await call(PATH, { method: "POST", body, signal })).blob();
}

function OptionRow({ options, onChange }: {
  options: Options;
  onChange: (change: Partial<Options>) => void;
}): JSX.Element {
  return (
    <div class="row">
      <Check
        label="Fill background"
        isOn={options.hasBackground}
        onChange={(hasBackground) => onChange({ hasBackground })}
      />
      {options.hasBackground && (
        <input
          type="color"
          aria-label="Background colour"
          value={options.background}
          onChange={(event) => onChange({ background: event.currentTarget.value })}
        />
      )}
      <Check
        label="Mask only"
        isOn={options.maskOnly}
        onChange={(maskOnly) => onChange({ maskOnly })}
      />
      <Check
        label="Crop to the subject"
        isOn={options.crop}
        onChange={(crop) => onChange({ crop })}
      />
      <Check
        label="Refine edges"
        isOn={options.refine}
        onChange={(refine) => onChange({ refine })}
      />
    </div>
  );
}

/** The results of several images, which can be saved one by one or as one file. */
function Batch({ results, isBusy }: { results: readonly Result[]; isBusy: boolean }): JSX.Element {
  const done = results.filter(({ after }) => after !== undefined);
  return (
    <>
      {done.length > 0 && (
        <div class="row">
          <SaveButton name="cut_outs.zip" make={() => zipImages(done)}>
            {isBusy
              ? `Download the first ${done.length} (zip)`
              : `Download all ${done.length} (zip)`}
          </SaveButton>
        </div>
      )}
      <ul class="batch">
        {results.map((result, index) => <BatchItem key={index} result={result} />)}
      </ul>
    </>
  );
}

function BatchItem({ result: { before, after, failure } }: { result: Result }): JSX.Element {
  const url = useObjectUrl(after);
  return (
    <li>
      {after && <img src={url} alt={`${before.name} without its background`} />}
      <p dir="auto">{before.name}</p>
      <Failure message={failure} />
      {after && (
        <div class="row">
          <SaveButton name={toPngName(before.name)} make={() => after}>Download PNG</SaveButton>
          <CopyImageButton image={after} />
        </div>
      )}
    </li>
  );
}

function toPngName(name: string): string {
  return `${name.replace(/\.[^.]*$/, "")}.png`;
}

/**
 * Puts PNG files, which are already compressed, into a ZIP file. If two have the same name, the second gets a number.
 */
async function zipImages(results: readonly Result[]): Promise<Blob> {
  const files: Record<string, Uint8Array> = {};
  for (const { before, after } of results) {
    const name = toPngName(before.name);
    let free = name;
    for (let count = 2; Object.hasOwn(files, free); count++) {
      free = name.replace(/\.png$/, `_${count}.png`);
    }
    files[free] = new Uint8Array(await after!.arrayBuffer());
  }
  const bytes = zipSync(files, { level: 0 }) as Uint8Array<ArrayBuffer>;
  return new Blob([bytes], { type: "application/zip" });
}

/**
 * Copies a PNG image.
 *
 * @throws {Error} with the reason, when the browser cannot copy images.
 */
async function copyImage(image: Blob): Promise<void> {
  if (navigator.clipboard?.write === undefined) {
    throw new Error("Browsers allow copying images only on https:// pages and localhost");
  }
  await navigator.clipboard.write([new ClipboardItem({ "image/png": image })]);
}

function CopyImageButton({ image }: { image: Blob }): JSX.Element {
  const [state, setState] = useState("Copy image");
  const copy = async () => {
    try {
      await copyImage(image);
      setState("Copied");
    } catch (error) {
      setState((error as Error).message);
    }
    setTimeout(() => setState("Copy image"), 2500);
  };
  return <button type="button" onClick={copy}>{state}</button>;
}

function toFormFields(options: Options): (readonly [string, string])[] {
  return [
    ...options.hasBackground ? [["background", options.background] as const] : [],
    ...options.maskOnly ? [["mask_only", "true"] as const] : [],
    ...options.crop ? [["crop", "true"] as const] : [],
    ...options.refine ? [["refine", "true"] as const] : [],
  ];
}

function BeforeAfter({ before, after, isCropped }: {
  before: Blob;
  after: Blob;
  isCropped: boolean;
}): JSX.Element {
  const [percent, setPercent] = useState(50);
  const beforeUrl = useObjectUrl(before);
  const afterUrl = useObjectUrl(after);
  if (isCropped) {
    return (
      <div class="compare">
        <img src={afterUrl} alt="Image without background" />
      </div>
    );
  }
  return (
    <div class="compare">
      <img src={afterUrl} alt="Image without background" />
      <img
        class="before"
        src={beforeUrl}
        alt="Original image"
        style={{ clipPath: `inset(0 ${100 - percent}% 0 0)` }}
      />
      <input
        type="range"
        min="0"
        max="100"
        value={percent}
        aria-label="How much of the original to show"
        onInput={(event) => setPercent(event.currentTarget.valueAsNumber)}
      />
    </div>
  );
}
