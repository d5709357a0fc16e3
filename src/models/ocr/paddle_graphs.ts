/**
 * Finds the graphs of a PP-OCR model in a folder, by the names that RapidOCR and PaddleOCR give them:
 * `ch_PP-OCRv4_det_infer.onnx`, `ch_ppocr_mobile_v2.0_cls_infer.onnx`, `PP-OCRv5_mobile_rec_onnx/inference.onnx`.
 *
 * @module
 */
import { posix } from "node:path";
import { StartupError } from "../../base/errors.ts";
import type { ModelFolder } from "../../hub/model_folder.ts";
import type { WantedGraph } from "../folder/graph_choice.ts";

/** A graph, with the properties that its name shows. */
export interface PaddleGraph {
  /** Path in the folder. */
  readonly file: string;
  /** Language (`ch`, `en`, `korean`); empty if the name has none. */
  readonly language: string;
  /** Version of PP-OCR: 2, 3, 4, 5 …; 0 if the name has none. */
  readonly version: number;
}

interface PaddleGraphs {
  readonly detection: PaddleGraph;
  readonly classification: PaddleGraph | undefined;
  /** Recognition graphs, at least one, each for a different language. */
  readonly recognition: readonly PaddleGraph[];
}

type Role = keyof PaddleGraphs;

const ROLES: readonly (readonly [Role, RegExp])[] = [
  ["detection", /(^|[^a-z])(det|detection)([^a-z]|$)/],
  ["recognition", /(^|[^a-z])(rec|recognition)([^a-z]|$)/],
  ["classification", /(^|[^a-z])(cls|textline_ori)([^a-z]|$)/],
];
/** Words in the names of graphs for other tasks or for training. */
const OTHER = /(^|[^a-z])(doc_ori|uvdoc|layout|table|formula|seal|train)([^a-z]|$)/;
/** Words for the sizes of models, in order of preference. */
const SIZES = [/mobile|small/, /medium/, /tiny/, /server/];

interface Candidate extends PaddleGraph {
  readonly role: Role;
  readonly size: number;
}

function describe(file: string): Candidate | undefined {
  const path = file.toLowerCase().replace(/\.onnx$/, "");
  const findRole = (name: string) => ROLES.find(([, pattern]) => pattern.test(name))?.[0];
  const role = findRole(posix.basename(path)) ?? findRole(path);
  if (role === undefined || OTHER.test(path)) return undefined;
  const name = findRole(posix.basename(path)) ? posix.basename(path) : posix.dirname(path);
  const version = /(?:^|[^a-z]|ocr)v(\d+)/.exec(name)?.[1] ?? /ocrv(\d+)/.exec(path)?.[1];
  // A name without a size belongs to a mobile model.
  const size = SIZES.findIndex((pattern) => pattern.test(name));
  return {
    file,
    role,
    language: /^([a-z]+(?:_cht|_doc)?)[_-](?=pp|number|mobile|rec)/.exec(name)?.[1] ?? "",
    version: Number(version ?? 0),
    size: Math.max(0, size),
  };
}

/** Finds the folder of a graph's set of exports. PaddleOCR puts each graph into its own subfolder, as `inference.onnx`. */
function parseSetName(file: string): string {
  const folder = posix.dirname(file);
  return posix.basename(file).startsWith("inference") ? posix.dirname(folder) : folder;
}

function findCandidates({ files }: ModelFolder): Candidate[] {
  return [...files]
    // Files in deeper folders are ignored, as the list of a remote folder's files does not include them.
    .filter((file) => file.endsWith(".onnx") && file.split("/").length <= 2)
    .flatMap((file) => describe(file) ?? []);
}

/** Whether a folder has a detector and a recogniser, or one of the two and no `config.json`. */
export function isPaddleOcr(folder: ModelFolder): boolean {
  const roles = new Set(findCandidates(folder).map(({ role }) => role));
  const [detects, recognises] = [roles.has("detection"), roles.has("recognition")];
  return (detects && recognises) || (!folder.files.has("config.json") && (detects || recognises));
}

/**
 * Chooses the newest detector, the newest classifier and the newest recogniser for each language. All recognisers come
 * from the set of exports that has the newest recogniser.
 *
 * @throws {StartupError} when a graph is missing, or two graphs are equally suitable; the message says what was found.
 */
export function choosePaddleGraphs(folder: ModelFolder): PaddleGraphs {
  const candidates = findCandidates(folder);
  const best = (from: readonly Candidate[]): Candidate | undefined => {
    const ordered = from.toSorted((a, b) => b.version - a.version || a.size - b.size);
    const [first, second] = ordered;
    if (second && first!.version === second.version && first!.size === second.size) {
      throw new StartupError(
        `${folder.path} has ${
          first!.file
        } and ${second.file}, whose names do not show which one is newer or smaller. ` +
          "Keep only one of them.",
      );
    }
    return first;
  };
  const withRole = (role: Role) => candidates.filter((each) => each.role === role);
  const detection = best(preferGeneral(withRole("detection")));
  const recognisers = withRole("recognition");
  const newest = recognisers.toSorted((a, b) => b.version - a.version)[0];
  if (detection === undefined || newest === undefined) {
    const seen = candidates.map(({ file }) => file).join(", ");
    throw new StartupError(
      `${folder.path} has ${seen || "no graph of PP-OCR"}. Wanted: a graph for detection ` +
        "(ch_PP-OCRv4_det_infer.onnx, …_det/inference.onnx) and one for recognition " +
        "(ch_PP-OCRv4_rec_infer.onnx, …_rec/inference.onnx), or a config.json that names them.",
    );
  }
  const beside = recognisers.filter(({ file }) => parseSetName(file) === parseSetName(newest.file));
  return {
    detection,
    classification: best(withRole("classification")),
    recognition: [...Map.groupBy(beside, ({ language }) => language).values()]
      .map((alike) => best(alike)!),
  };
}

/** Lists the graphs to run. */
export function listPaddleGraphs(folder: ModelFolder): WantedGraph[] {
  const { detection, classification, recognition } = choosePaddleGraphs(folder);
  return [detection, ...(classification ? [classification] : []), ...recognition]
    .map(({ file }) => ({ name: file.replace(/\.onnx$/, ""), paths: { fp32: file } }));
}

/** Prefers detectors for any script to detectors for one script. */
function preferGeneral(detectors: readonly Candidate[]): readonly Candidate[] {
  const general = detectors.filter(({ language }) => ["", "ch", "multi"].includes(language));
  return general.length > 0 ? general : detectors;
}
