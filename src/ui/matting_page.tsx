/**
 * Background removal: before and after, with an optional background.
 *
 * @module
 */
import type { JSX } from "preact";
import { useState } from "preact/hooks";

import {
  Failure,
  FileDrop,
  formatMs,
  IMAGE_FORMATS,
  SaveButton,
  useObjectUrl,
} from "./controls.tsx";
import { RequestCode } from "./request_code.tsx";
import { call, type PageProps } from "./server.ts";
import { useWork } from "./work.ts";

const PATH = "v1/images/remove_background";

interface Options {
  readonly background: string;
  readonly hasBackground: boolean;
  readonly maskOnly: boolean;
  readonly crop: boolean;
  readonly refine: boolean;
}

interface Result {
  readonly before: Blob;
  readonly after: Blob;
  /** It has another size, so that the two cannot lie on each other. */
  readonly isCropped: boolean;
}

export function MattingPage(_: PageProps): JSX.Element {
  const [file, setFile] = useState<File>();
  const [result, setResult] = useState<Result>();
  const [options, setOptions] = useState<Options>({
    background: "#ffffff",
    hasBackground: false,
    maskOnly: false,
    crop: false,
    refine: false,
  });
  const work = useWork();
  const cutOut = (image: File, wanted: Options) =>
    work.start(async (signal) => {
      setFile(image);
      const body = new FormData();
      body.append("image", image);
      for (const [name, value] of formOf(wanted)) body.append(name, value);
      if (image !== file) setResult(undefined);
      const after = await (await call(PATH, { method: "POST", body, signal })).blob();
      setResult({ before: image, after, isCropped: wanted.crop });
    });
  const choose = (change: Partial<Options>) => {
    const next = { ...options, ...change };
    setOptions(next);
    if (file) cutOut(file, next);
  };
  return (
    <main class="wide">
      <h1>Remove a background</h1>
      <FileDrop
        accept="image/*,.heic,.heif"
        label="Drop or paste an image"
        formats={IMAGE_FORMATS}
        onFiles={([image]) => cutOut(image!, options)}
      />
      <div class="row">
        <Check
          label="Colour behind"
          isOn={options.hasBackground}
          onChange={(hasBackground) => choose({ hasBackground })}
        />
        {options.hasBackground && (
          <input
            type="color"
            aria-label="Background colour"
            value={options.background}
            onChange={(event) => choose({ background: event.currentTarget.value })}
          />
        )}
        <Check
          label="Mask only"
          isOn={options.maskOnly}
          onChange={(maskOnly) => choose({ maskOnly })}
        />
        <Check
          label="Crop to what is left"
          isOn={options.crop}
          onChange={(crop) => choose({ crop })}
        />
        <Check
          label="Refine edges"
          isOn={options.refine}
          onChange={(refine) => choose({ refine })}
        />
      </div>
      <Failure message={work.failure} />
      {work.isBusy && <p class="soft dots" aria-live="polite">Working</p>}
      {result && (
        <>
          <BeforeAfter {...result} />
          <div class="row">
            <SaveButton name="cut_out.png" make={() => result.after}>Download PNG</SaveButton>
            {work.tookMs !== undefined && <span class="soft">{formatMs(work.tookMs)}</span>}
          </div>
        </>
      )}
      <RequestCode
        request={{
          path: PATH,
          file: `image=${file?.name ?? "photo.jpg"}`,
          form: formOf(options),
          output: "cut_out.png",
        }}
      />
    </main>
  );
}

function formOf(options: Options): (readonly [string, string])[] {
  return [
    ...options.hasBackground ? [["background", options.background] as const] : [],
    ...options.maskOnly ? [["mask_only", "true"] as const] : [],
    ...options.crop ? [["crop", "true"] as const] : [],
    ...options.refine ? [["refine", "true"] as const] : [],
  ];
}

function Check({ label, isOn, onChange }: {
  label: string;
  isOn: boolean;
  onChange: (isOn: boolean) => void;
}): JSX.Element {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={isOn}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
      {label}
    </label>
  );
}

function BeforeAfter({ before, after, isCropped }: Result): JSX.Element {
  const [percent, setPercent] = useState(50);
  const beforeUrl = useObjectUrl(before);
  const afterUrl = useObjectUrl(after);
  if (isCropped) {
    return (
      <div class="compare">
        <img src={afterUrl} alt="Without its background" />
      </div>
    );
  }
  return (
    <div class="compare">
      <img src={afterUrl} alt="Without its background" />
      <img
        class="before"
        src={beforeUrl}
        alt="As it was"
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
