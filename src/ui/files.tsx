/**
 * Files that the user gives to the page, chosen, dropped or pasted, and files that the page saves.
 *
 * @module
 */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure } from "./controls.tsx";

/** The image formats that the server decodes. */
export const IMAGE_FORMATS = "PNG, JPEG, WebP, AVIF, HEIC, GIF, TIFF or BMP";
/** The sound formats that the server decodes. */
export const SOUND_FORMATS = "WAV, MP3, M4A, AAC, Ogg, FLAC, AIFF or WebM";

/** Largest upload: the limit of a request. */
const MAX_UPLOADED_MIB = 100;
/** Largest image that fits into a request as base64, which takes four characters for three bytes. */
export const MAX_IN_JSON_MIB = 75;

/** Explains why a file is too large to be read into memory and sent; `undefined` if it is not. */
export function refuseLarge({ name, size }: File, maxMib: number): string | undefined {
  const mib = size / 2 ** 20;
  return mib <= maxMib
    ? undefined
    : `${name} is ${Math.ceil(mib)} MiB large. Choose a file of at most ${maxMib} MiB.`;
}

/** A button with which the user chooses files. @param props.label names the file input for screen readers. */
export function FileButton({ label, accept = "", multiple = false, onFiles, children }: {
  label: string;
  accept?: string;
  multiple?: boolean;
  onFiles: (files: File[]) => void;
  children: string;
}): JSX.Element {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" onClick={() => input.current?.click()}>{children}</button>
      <input
        ref={input}
        type="file"
        accept={accept}
        multiple={multiple}
        aria-label={label}
        hidden
        onChange={(event) => {
          onFiles([...event.currentTarget.files ?? []]);
          event.currentTarget.value = "";
        }}
      />
    </>
  );
}

/** Lets the user choose files of one kind, paste them, or drop files anywhere on the page. */
export function FileDrop(
  { accept, label, formats, maxMib = MAX_UPLOADED_MIB, multiple = false, onFiles, children }: {
    /** As in `<input type=file>`. The part before the first slash also decides which pasted files are taken. */
    accept: string;
    label: string;
    /** Names of the formats, to show to the user. */
    formats: string;
    /** Size of the largest accepted file. */
    maxMib?: number;
    /** Whether several files can be chosen at once. */
    multiple?: boolean;
    onFiles: (files: File[]) => void;
    children?: ComponentChildren;
  },
): JSX.Element {
  const [failure, setFailure] = useState<string>();
  const take = (files: File[]) => {
    if (files.length === 0) return;
    const refusal = files.map((file) => refuseLarge(file, maxMib)).find(Boolean);
    setFailure(refusal);
    if (refusal === undefined) onFiles(files);
  };
  usePastedFiles(accept, take);
  const isOver = useDroppedFiles(take);
  return (
    <div class="drop" data-over={isOver}>
      <p>{label}</p>
      <div class="row">
        <FileButton label={label} accept={accept} multiple={multiple} onFiles={take}>
          {multiple ? "Choose files" : "Choose a file"}
        </FileButton>
        {children}
      </div>
      <p class="hint">{formats}, up to {maxMib} MiB</p>
      <Failure message={failure} />
    </div>
  );
}

/** Calls `onFiles` with files of the type `accept` that are pasted anywhere on the page. */
export function usePastedFiles(accept: string, onFiles: (files: File[]) => void): void {
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const family = accept.split("/")[0]!;
    const listen = (event: ClipboardEvent) => {
      // Text copied from a table comes with a picture of it, which is not wanted.
      if (event.clipboardData?.types.includes("text/plain")) return;
      const files = [...event.clipboardData?.files ?? []].filter(({ type }) =>
        family === "*" || type.startsWith(family)
      );
      if (files.length > 0) latest.current(files);
    };
    addEventListener("paste", listen);
    return () => removeEventListener("paste", listen);
  }, [accept]);
}

/**
 * Calls `onFiles` with files dropped anywhere on the page. The browser would otherwise show such a file in place of the
 * page.
 *
 * @returns whether files are being dragged over the page.
 */
export function useDroppedFiles(onFiles: (files: File[]) => void): boolean {
  const [isOver, setIsOver] = useState(false);
  const latest = useRef(onFiles);
  latest.current = onFiles;
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    const listen = (name: "dragover" | "dragleave" | "drop", act: (event: DragEvent) => void) =>
      addEventListener(name, (event) => {
        if (!event.dataTransfer?.types.includes("Files")) return;
        event.preventDefault();
        act(event);
      }, { signal });
    listen("dragover", () => setIsOver(true));
    listen("dragleave", ({ relatedTarget }) => relatedTarget === null && setIsOver(false));
    listen("drop", ({ dataTransfer }) => {
      setIsOver(false);
      latest.current([...dataTransfer!.files]);
    });
    return () => controller.abort();
  }, []);
  return isOver;
}

/** Makes an object URL for the blob, which is valid as long as the calling component is mounted. */
export function useObjectUrl(blob: Blob | undefined): string | undefined {
  const [url, setUrl] = useState<string>();
  useEffect(() => {
    if (blob === undefined) return setUrl(undefined);
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}

/** Converts a blob to a `data:` URL. */
export function readDataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

/** Makes the browser save a file. */
export function saveFile(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A button that saves the result of `make`. */
export function SaveButton({ name, make, children }: {
  name: string;
  make: () => Blob | Promise<Blob>;
  children: ComponentChildren;
}): JSX.Element {
  return (
    <button type="button" onClick={async () => saveFile(await make(), name)}>{children}</button>
  );
}
