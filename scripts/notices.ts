/**
 * `deno task notices`: rewrites THIRD_PARTY_NOTICES from the lock file and the packages' own files.
 *
 * @module
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const REPOSITORY = fileURLToPath(new URL("../", import.meta.url));
const LICENCES = fileURLToPath(new URL("./licences/", import.meta.url));

/** Path of the notices. */
export const NOTICES = join(REPOSITORY, "THIRD_PARTY_NOTICES");

/** Workspace members whose packages reach users: those of `src/ui` are bundled into the web page. */
const SHIPPED_MEMBERS = ["src/ui"];

/** Copyright holders of packages without a licence text. */
const HOLDERS: Readonly<Record<string, string>> = {
  "@wasm-audio-decoders/common": "2021-2025 Ethan Halsall",
  "@wasm-audio-decoders/ogg-vorbis": "2021-2025 Ethan Halsall",
  "mpg123-decoder": "2021-2025 Ethan Halsall",
  "opus-decoder": "2021-2025 Ethan Halsall",
  "onnxruntime-common": "Microsoft Corporation",
  "onnxruntime-node": "Microsoft Corporation",
  "onnxruntime-web": "Microsoft Corporation",
};

/** Libraries that are compiled into packages and have other licences. */
const INSIDE: Readonly<Record<string, readonly [name: string, licence: string, holder: string]>> = {
  phonemizer: [
    "eSpeak NG",
    "GPL-3",
    "2005-2014 Jonathan Duddington, 2013-2017 Reece H. Dunn and others",
  ],
  "mpg123-decoder": ["mpg123", "LGPL-2.1", "1995-2023 the mpg123 project"],
  "wasm-media-encoders": ["LAME", "LGPL-2.1", "1999-2022 the LAME project"],
  "libheif-js": [
    "libheif and libde265",
    "LGPL-3",
    "2013-2014 struktur AG, 2017-2026 Dirk Farin and others",
  ],
  "opus-decoder": [
    "libopus",
    "BSD-3-Clause",
    "2001-2023 Xiph.Org, Skype Limited, Octasic and others",
  ],
  "@evan/wasm": [
    "libopus",
    "BSD-3-Clause",
    "2001-2023 Xiph.Org, Skype Limited, Octasic and others",
  ],
  libflacjs: ["libFLAC", "BSD-3-Clause", "2000-2009 Josh Coalson, 2011-2023 Xiph.Org Foundation"],
  "@wasm-audio-decoders/ogg-vorbis": [
    "libvorbis and libogg",
    "BSD-3-Clause",
    "2002-2020 Xiph.Org Foundation",
  ],
  "@jsquash/jpeg": [
    "MozJPEG",
    "BSD-3-Clause",
    "1991-2020 the Independent JPEG Group, the libjpeg-turbo project, Mozilla",
  ],
  "@jsquash/webp": ["libwebp", "BSD-3-Clause", "2010 Google Inc."],
  "@jsquash/avif": [
    "libavif and libaom",
    "BSD-3-Clause",
    "2019 Joe Drago, 2016 Alliance for Open Media",
  ],
};

/** Notices for packages that contain libraries under several licences. */
const REMARKS: Readonly<Record<string, string>> = {
  "@embedpdf/pdfium": `It contains PDFium, whose licence is above, and with it:
FreeType (FreeType License): portions of this software are copyright (c) 1996-2026 The FreeType
Project (https://freetype.org). All rights reserved.
OpenJPEG (BSD-2-Clause), Copyright (c) 2002-2014 Universite catholique de Louvain and others.
Little CMS (MIT), Copyright (c) 1998-2026 Marti Maria Saguer.
libjpeg-turbo (IJG, BSD-3-Clause): this software is based in part on the work of the Independent
JPEG Group.
zlib (zlib), Copyright (C) 1995-2026 Jean-loup Gailly and Mark Adler.
Anti-Grain Geometry 2.3, Copyright (C) 2002-2005 Maxim Shemanarev: permission to copy, use, modify,
sell and distribute this software is granted provided this copyright notice appears in all copies.
This software is provided "as is" without express or implied warranty, and with no claim as to its
suitability for any purpose.`,
};

const ABOUT =
  `Hearth is licensed under the Apache License 2.0 (see LICENSE). The packages that it uses and distributes
are licensed as follows. \`deno task notices\` writes this file from the lock file.

An executable made by \`deno task compile\` contains eSpeak NG, which is licensed under the GNU General
Public License, version 3 or later. Those who distribute such an executable must do so under that
licence, with its source. \`deno task compile --permissive\` leaves eSpeak NG out; requests to Kokoro then
fail with an error that says so. A checkout contains none of these packages: Deno fetches them from npm.
`;

interface LockFile {
  readonly specifiers: Readonly<Record<string, string>>;
  readonly npm: Readonly<Record<string, { readonly dependencies?: readonly string[] }>>;
  readonly workspace: {
    readonly dependencies: readonly string[];
    readonly members: Readonly<Record<string, { readonly dependencies?: readonly string[] }>>;
  };
}

/** The packages distributed to users, as `name@version`. */
export function listPackages(lock: LockFile): string[] {
  const found = new Set<string>();
  const take = (id: string) => {
    // Skips packages that `package.json` overrides with an empty package.
    if (id.includes("@npm:") || found.has(id)) return;
    const known = id in lock.npm
      ? id
      : Object.keys(lock.npm).find((each) => parseName(each) === id);
    if (known === undefined) throw new Error(`deno.lock has no ${id}.`);
    if (found.has(known)) return;
    found.add(known);
    for (const each of lock.npm[known]!.dependencies ?? []) take(each);
  };
  const { dependencies, members } = lock.workspace;
  const wanted = [
    ...dependencies,
    ...SHIPPED_MEMBERS.flatMap((member) => members[member]?.dependencies ?? []),
  ];
  for (const each of wanted) {
    take(`${parseName(each.slice("npm:".length))}@${lock.specifiers[each]}`);
  }
  return [...found].sort();
}

function parseName(id: string): string {
  return id.slice(0, id.indexOf("@", 1));
}

/** Makes the text of THIRD_PARTY_NOTICES. */
export function writeNotices(): string {
  const lock: LockFile = JSON.parse(Deno.readTextFileSync(join(REPOSITORY, "deno.lock")));
  const cache = join(findNpmCache(), "registry.npmjs.org");
  const sections = listPackages(lock).map((id) => describe(id, cache));
  const texts = [...new Set(Object.values(INSIDE).map(([, licence]) => licence))].sort()
    .map((licence) => formatSection(licence, readLicence(licence)));
  return [ABOUT, ...sections, ...texts].join("\n");
}

function findNpmCache(): string {
  const { stdout } = new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).outputSync();
  return JSON.parse(new TextDecoder().decode(stdout)).npmCache;
}

function describe(id: string, cache: string): string {
  const name = parseName(id);
  // An underscore separates the version from the resolved peer dependencies.
  const version = id.slice(name.length + 1).replace(/_.*$/, "");
  const folder = join(cache, name, version);
  const { license } = JSON.parse(Deno.readTextFileSync(join(folder, "package.json")));
  const files = [...Deno.readDirSync(folder)].map((entry) => entry.name)
    .filter((file) => /^(licen[cs]e|copying|notice)(\.\w+)?$/i.test(file)).sort();
  const inside = INSIDE[name];
  const texts = files.map((file) => Deno.readTextFileSync(join(folder, file)).trim());
  if (files.length === 0) texts.push(makeLicenceText(name, license));
  if (inside !== undefined) {
    const [library, licence, holder] = inside;
    texts.push(
      `It contains ${library}, Copyright (c) ${holder}: ${licence}, whose text is at the end.`,
    );
  }
  const remark = REMARKS[name];
  if (remark !== undefined) texts.push(remark);
  return formatSection(`${name} ${version} (${license})`, texts.join("\n\n"));
}

function makeLicenceText(name: string, license: string): string {
  const holder = HOLDERS[name];
  if (holder === undefined) {
    throw new Error(`${name} has no licence text: name its copyright holder in HOLDERS.`);
  }
  return `Copyright (c) ${holder}\n\n${readLicence(license)}`;
}

function readLicence(licence: string): string {
  return Deno.readTextFileSync(`${LICENCES}${licence}.txt`).trim();
}

function formatSection(title: string, text: string): string {
  const plain = text.replaceAll("\r\n", "\n").replaceAll(/[ \t]+$/gm, "");
  return `${"=".repeat(80)}\n${title}\n${"=".repeat(80)}\n\n${plain}\n`;
}

if (import.meta.main) Deno.writeTextFileSync(NOTICES, writeNotices());
