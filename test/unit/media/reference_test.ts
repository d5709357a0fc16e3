import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { connect, type MediaPolicy } from "../../../src/media/fetch.ts";
import { Base64Decoder, readMedia, readPaths } from "../../../src/media/reference.ts";
import { withServer } from "../../fixtures/servers/local_server.ts";

const POLICY: MediaPolicy = {
  isLocal: true,
  allowPrivate: false,
  mediaDir: undefined,
  maxBytes: 1024,
  maxTotalMs: 5_000,
};
/** A server that other machines can reach. */
const REMOTE: MediaPolicy = { ...POLICY, isLocal: false };

function read(reference: string, policy = POLICY, signal = new AbortController().signal) {
  return readMedia(reference, { policy, signal });
}

async function readText(reference: string, policy = POLICY): Promise<string> {
  return new TextDecoder().decode(await read(reference, policy));
}

async function assertRefused(
  reference: string,
  message: RegExp,
  policy: MediaPolicy = POLICY,
): Promise<void> {
  await assert.rejects(read(reference, policy), { kind: "invalid_media", message });
}

Deno.test("readMedia() decodes base64:// and data: references", async () => {
  assert.equal(await readText("base64://aGVsbG8="), "hello");
  assert.equal(await readText("base64://aGVsbG8"), "hello");
  assert.deepEqual(await read("base64://-_8"), Uint8Array.of(0xfb, 0xff));
  assert.equal(await readText("data:audio/wav;base64,aGVsbG8="), "hello");
  assert.equal(await readText("data:,h%C3%A9"), "hé");
});

Deno.test("readMedia() refuses invalid base64, and unknown schemes", async () => {
  await assertRefused("base64://a*b", /not base64/);
  await assertRefused("data:audio/wav;base64", /no comma/);
  await assertRefused("data:,%zz", /percent-encoded/);
  await assertRefused("ftp://example.org/x", /none of the schemes/);
});

Deno.test("readMedia() limits decoded references", async () => {
  const over = Buffer.alloc(1025).toString("base64");
  await assertRefused(`base64://${over}`, /more than/);
});

async function withFolder(use: (folder: string, outside: string) => Promise<void>): Promise<void> {
  const root = await Deno.makeTempDir({ prefix: "hearth-media-" });
  try {
    await Deno.mkdir(join(root, "media", "sub dir"), { recursive: true });
    await Deno.mkdir(join(root, "media2"));
    await Deno.writeTextFile(join(root, "media", "sub dir", "100%.txt"), "inside");
    await Deno.writeTextFile(join(root, "outside.txt"), "outside");
    await Deno.writeTextFile(join(root, "media2", "near.txt"), "near");
    await Deno.symlink(join(root, "outside.txt"), join(root, "media", "link.txt"));
    await use(join(root, "media"), join(root, "outside.txt"));
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("readMedia() reads any file for callers on this machine", () =>
  withFolder(async (folder, outside) => {
    assert.equal(await readText(`file://${outside}`), "outside");
    assert.equal(await readText(`file://${folder}/sub dir/100%.txt`), "inside");
    assert.equal(await readText(`file://${folder}/sub%20dir/100%25.txt`), "inside");
    assert.equal(await readText(`file://${folder}/link.txt`), "outside");
    assert.equal(await readText(`file://localhost${outside}`), "outside");
    await assertRefused(`file://${folder}/none.txt`, /no such file/);
    for (const path of ["relative.txt", "./relative.txt", "", "~/a.txt", "relative%2ftxt"]) {
      await assertRefused(`file://${path}`, /want the absolute path of a file after file:/);
    }
    await assertRefused(`file://${folder}`, /not a file/);
    await Deno.writeFile(outside, new Uint8Array(1025));
    const { readFile } = Deno;
    Deno.readFile = () => assert.fail("a file above the limit is read");
    try {
      await assertRefused(`file://${outside}`, /more than/);
    } finally {
      Deno.readFile = readFile;
    }
  }));

Deno.test({
  name: "readMedia() reads no device",
  ignore: Deno.build.os === "windows",
  fn: () => assertRefused("file:///dev/zero", /not a file/),
});

Deno.test("readMedia() reads no file for remote callers if there is no media folder", () =>
  withFolder(async (_, outside) => {
    await assertRefused(`file://${outside}`, /--media-dir/, REMOTE);
  }));

Deno.test("readMedia() restricts remote callers to the media folder, despite dots and links", () =>
  withFolder(async (mediaDir, outside) => {
    const policy = { ...REMOTE, mediaDir };
    assert.equal(await readText(`file://${mediaDir}/sub dir/100%.txt`, policy), "inside");
    for (
      const path of [
        outside,
        `${mediaDir}/../outside.txt`,
        `${mediaDir}/%2e%2e/outside.txt`,
        `${mediaDir}/..%2foutside.txt`,
        `${mediaDir}/../media2/near.txt`,
        `${mediaDir}/link.txt`,
        `${mediaDir}/none.txt`,
        mediaDir,
      ]
    ) await assertRefused(`file://${path}`, /not below the folder/, policy);
  }));

const sanitize = { sanitizeOps: false, sanitizeResources: false };

function serverTest(name: string, fn: () => Promise<void>): void {
  // Connections may close a moment after the test.
  Deno.test({ name, ...sanitize, fn });
}

serverTest("readMedia() fetches over HTTP, by address and by name", () =>
  withServer(
    (request, response) => response.end(`${request.headers.host} ${request.url}`),
    async (base) => {
      const { port } = new URL(base);
      assert.equal(await readText(`${base}/a?b=c`), `127.0.0.1:${port} /a?b=c`);
      assert.equal(await readText(`http://localhost:${port}/`), `localhost:${port} /`);
    },
  ));

serverTest(
  "connect() uses the first address of a name that answers",
  () =>
    withServer((_, response) => response.end("here"), async (base) => {
      const { signal } = new AbortController();
      // Nothing listens at the first two.
      const addresses = ["::1", "127.0.0.9", "127.0.0.1"];
      const response = await connect(new URL(base), addresses, signal);
      assert.equal(await text(response), "here");
      await assert.rejects(connect(new URL(base), addresses.slice(0, 2), signal), {
        kind: "invalid_media",
        message: /cannot be reached/,
      });
    }),
);

const HOSTS_OF_THIS_MACHINE = [
  ...["127.0.0.1", "localhost", "LOCALHOST", "user@127.0.0.1", "0.0.0.0", "0", "127.1"],
  ...["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "①②⑦.⓪.⓪.①", "127。0。0。1"],
  ...["[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]"],
  ...["[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]"],
];

serverTest(
  "readMedia() fetches from private addresses only if allowed",
  () =>
    withServer((_, response) => response.end("secret"), async (base) => {
      const { port } = new URL(base);
      for (const host of HOSTS_OF_THIS_MACHINE) {
        await assertRefused(`http://${host}:${port}/`, /--allow-private-media/, REMOTE);
      }
      assert.equal(await readText(base, { ...REMOTE, allowPrivate: true }), "secret");
    }),
);

serverTest("readMedia() never fetches from link-local and metadata addresses", async () => {
  const policy = { ...POLICY, allowPrivate: true };
  for (
    const host of [
      "169.254.169.254",
      "2852039166",
      "0xa9fea9fe",
      "0251.0376.0251.0376",
      "[::ffff:169.254.169.254]",
      "[64:ff9b::a9fe:a9fe]",
      "168.63.129.16",
      "100.100.100.200",
      "[fe80::1]",
      "[fd00:ec2::254]",
      "224.0.0.1",
    ]
  ) await assertRefused(`http://${host}/latest/meta-data`, /never fetched from/, policy);
});

serverTest("readMedia() checks every redirect", () =>
  withServer((request, response) => {
    const [, target = ""] = /to=(.*)/.exec(request.url!) ?? [];
    response.writeHead(302, { location: decodeURIComponent(target) }).end();
  }, async (base) => {
    const to = (target: string) => `${base}/?to=${encodeURIComponent(target)}`;
    await assertRefused(to("http://169.254.169.254/"), /never fetched from/);
    await assertRefused(to("file:///etc/passwd"), /scheme file:/);
    await assertRefused(to(to("http://[::ffff:169.254.169.254]/")), /never fetched from/);
  }));

serverTest(
  "readMedia() follows five redirects and no more",
  () =>
    withServer((request, response) => {
      const left = Number(request.url!.slice(1));
      if (left === 0) response.end("there");
      else response.writeHead(307, { location: `/${left - 1}` }).end();
    }, async (base) => {
      assert.equal(await readText(`${base}/5`), "there");
      await assertRefused(`${base}/6`, /more than 5 times/);
    }),
);

serverTest(
  "readMedia() limits the size of downloads, declared or not",
  () =>
    withServer((request, response) => {
      if (request.url === "/declared") response.setHeader("content-length", 1025);
      response.write(new Uint8Array(600));
      response.end(new Uint8Array(request.url === "/fits" ? 424 : 425));
    }, async (base) => {
      assert.equal((await read(`${base}/fits`)).length, 1024);
      await assertRefused(`${base}/declared`, /more than/);
      await assertRefused(`${base}/chunked`, /more than/);
    }),
);

serverTest(
  "readMedia() stops slow downloads, in headers or body",
  () =>
    withServer((request, response) => {
      if (request.url === "/body") response.write("begins");
    }, async (base) => {
      const policy = { ...POLICY, maxTotalMs: 100 };
      await assertRefused(`${base}/headers`, /took more than 0.1 s/, policy);
      await assertRefused(`${base}/body`, /took more than 0.1 s/, policy);
    }),
);

serverTest("readMedia() names the problem of a server", () =>
  withServer((request, response) => {
    if (request.url === "/cut") {
      response.writeHead(200, { "content-length": 100 });
      response.write("begins", () => response.destroy());
    } else response.writeHead(404).end();
  }, async (base) => {
    await assertRefused(`${base}/none`, /status 404/);
    await assertRefused(`${base}/cut`, /ended before its last byte/);
    await assertRefused("http://127.0.0.1:9/", /cannot be reached/);
    await assertRefused("http://name.invalid/", /cannot be resolved/);
    await assertRefused("http://", /not a URL/);
  }));

serverTest(
  "readMedia() stops when its request is aborted",
  () =>
    withServer((_, response) => void response.write("begins"), async (base) => {
      const controller = new AbortController();
      const reading = read(base, POLICY, controller.signal);
      setTimeout(() => controller.abort(), 50);
      await assert.rejects(reading, { name: "AbortError" });
    }),
);

Deno.test("readPaths() accepts Windows drives, escapes, and the host name of this machine", () => {
  const cases: [rest: string, os: string, paths: string[]][] = [
    ["/C:/My%20Photos/a.png", "windows", ["C:/My%20Photos/a.png", "C:/My Photos/a.png"]],
    ["localhost/d:/a.png", "windows", ["d:/a.png"]],
    ["C:\\a.png", "windows", ["C:\\a.png"]],
    ["/C:/a.png", "linux", ["/C:/a.png"]],
    ["localhost/tmp/100%.txt", "linux", ["/tmp/100%.txt"]],
    ["localhosts/a.png", "linux", ["localhosts/a.png"]],
  ];
  for (const [rest, os, paths] of cases) assert.deepEqual(readPaths(rest, os), paths, rest);
});

/** The bytes of base64 that arrives in two chunks. */
function decodeParts(text: string, end: number): Uint8Array {
  const decoder = new Base64Decoder({ maxBytes: text.length });
  for (const part of [text.slice(0, end), text.slice(end)]) decoder.push(part);
  return decoder.finish();
}

Deno.test("Base64Decoder reads percent-encoded base64 in URLs, with any division", () => {
  const bytes = Uint8Array.from({ length: 64 }, (_, i) => 251 + i * 5);
  const plain = bytes.toBase64();
  assert.match(plain, /\+.*=$/s);
  for (const encoded of [encodeURIComponent(plain), plain.replaceAll("/", "%2f"), plain]) {
    for (let end = 0; end <= encoded.length; end++) {
      assert.deepEqual(decodeParts(encoded, end), bytes, encoded.slice(0, end));
    }
  }
});

Deno.test("Base64Decoder refuses invalid base64 after percent-decoding", () => {
  for (const text of ["QUJD%", "QUJD%2", "QUJD%zz", "QUJD%3f", "%"]) {
    for (let end = 0; end <= text.length; end++) {
      assert.throws(() => decodeParts(text, end), { kind: "invalid_media" }, text);
    }
  }
});
