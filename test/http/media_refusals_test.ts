/** Media references that must not be followed, tested with the endpoint that removes backgrounds. */
import assert from "node:assert/strict";
import { join } from "node:path";
import type { ServerSettings } from "../../src/base/config.ts";
import { MEDIA_LIMITS } from "../../src/server/http/media.ts";
import { withServer } from "../fixtures/servers/local_server.ts";
import { discFile } from "../fixtures/images/matting.ts";
import {
  mattingBody,
  mattingTest,
  openMattingApp,
  readError,
} from "../fixtures/servers/matting_server.ts";
import type { TestApp, TestServerOptions } from "../fixtures/servers/server.ts";

const PATH = "/v1/images/remove_background";
const PART = "messages[0].content[0]";
/** A server that other machines can reach. */
const OPEN: Partial<ServerSettings> = { host: "0.0.0.0" };

async function assertServed(app: TestApp, reference: string): Promise<void> {
  const response = await app.post(PATH, mattingBody(reference));
  assert.equal(response.status, 200, `${reference}: ${await response.text()}`);
}

async function assertRefused(app: TestApp, reference: string, why: RegExp): Promise<void> {
  const response = await app.post(PATH, mattingBody(reference));
  const { message, ...error } = await readError(response);
  assert.deepEqual(error, { status: 400, code: "invalid_media", param: PART }, reference);
  assert.ok(message.startsWith(`${PART}: `), message);
  assert.match(message, why);
}

function refusalTest(
  name: string,
  options: TestServerOptions,
  fn: (app: TestApp) => Promise<void>,
): void {
  if (Object.keys(options).length === 0) return mattingTest(`remove_background: ${name}`, fn);
  Deno.test({
    name: `remove_background: ${name}`,
    // Connections may close a moment after the test.
    sanitizeOps: false,
    sanitizeResources: false,
    fn: async () => {
      await using app = await openMattingApp(options);
      await fn(app);
    },
  });
}

/** Makes a media folder with an image, and with a link to an image outside the folder. */
async function withFolder(use: (media: string, outside: string) => Promise<void>): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir({ prefix: "hearth-media-" }));
  try {
    const media = join(root, "media");
    await Deno.mkdir(media);
    const outside = join(root, "secret.png");
    for (const path of [outside, join(media, "inside.png")]) {
      await Deno.writeFile(path, discFile());
    }
    await Deno.symlink(outside, join(media, "link.png"));
    await use(media, outside);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

refusalTest(
  "a proxy on this machine does not make callers local",
  {},
  (app) =>
    withFolder(async (_media, outside) => {
      for (const header of ["x-forwarded-for", "x-real-ip", "forwarded", "via"]) {
        const headers = { [header]: "127.0.0.1" };
        const references = [`file://${outside}`, "http://127.0.0.1:9/x.png"];
        for (const [index, why] of [/reads no files/, /private/].entries()) {
          const response = await app.post(PATH, mattingBody(references[index]!), { headers });
          const { message, ...error } = await readError(response);
          assert.deepEqual(error, { status: 400, code: "invalid_media", param: PART });
          assert.match(message, why);
        }
      }
      await assertServed(app, `file://${outside}`);
    }),
);

refusalTest(
  "file:// URLs are read for callers on this machine",
  {},
  (app) =>
    withFolder(async (media, outside) => {
      await assertServed(app, `file://${outside}`);
      await assertRefused(app, `file://${media}/none.png`, /no such file/);
      await assertRefused(app, `file://${media}`, /not a file/);
      await assertRefused(app, "file:///dev/zero", /not a file/);
      await assertRefused(app, "file:///etc/hostname", /not a supported image/);
    }),
);

refusalTest(
  "an open server without a media folder reads no file",
  { settings: OPEN },
  (app) =>
    withFolder(async (_, outside) => {
      await assertRefused(app, `file://${outside}`, /--media-dir/);
      await assertRefused(app, "file:///etc/passwd", /--media-dir/);
    }),
);

Deno.test("remove_background: dots and links do not lead out of a media folder", () =>
  withFolder(async (mediaDir, outside) => {
    await using app = await openMattingApp({ settings: { ...OPEN, mediaDir } });
    await assertServed(app, `file://${mediaDir}/inside.png`);
    for (
      const path of [
        outside,
        `${mediaDir}/../secret.png`,
        `${mediaDir}/%2e%2e/secret.png`,
        `${mediaDir}/link.png`,
        `${mediaDir}/none.png`,
        "/etc/passwd",
      ]
    ) await assertRefused(app, `file://${path}`, /not below the folder/);
  }));

refusalTest("base64:// and data: without a valid image are refused", {}, async (app) => {
  await assertRefused(app, "base64://a*b", /not base64/);
  await assertRefused(app, "base64://", /empty/);
  await assertRefused(
    app,
    `base64://${new TextEncoder().encode("no image").toBase64()}`,
    /one of JPEG, .* is expected/,
  );
  await assertRefused(app, "data:image/png;base64", /no comma/);
  await assertRefused(app, "data:image/png,%zz", /percent-encoded/);
});

refusalTest("http:// URLs are fetched for callers on this machine", {}, async (app) => {
  const image = discFile();
  await withServer((request, response) => {
    if (request.url === "/text") response.end("words");
    else if (request.url === "/none") response.writeHead(404).end();
    else if (request.url === "/cut") {
      response.writeHead(200, { "content-length": image.length });
      response.write(image.subarray(0, 60), () => response.destroy());
    } else response.end(image);
  }, async (base) => {
    await assertServed(app, `${base}/image`);
    await assertRefused(app, `${base}/text`, /not a supported image/);
    await assertRefused(app, `${base}/none`, /status 404/);
    await assertRefused(app, `${base}/cut`, /ended before its last byte/);
    await assertRefused(app, "http://127.0.0.1:9/", /cannot be reached/);
  });
});

refusalTest(
  "an open server does not fetch from private addresses",
  { settings: OPEN },
  (app) =>
    withServer((_, response) => response.end("secret"), async (base) => {
      const { port } = new URL(base);
      for (const host of ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"]) {
        await assertRefused(app, `http://${host}:${port}/`, /--allow-private-media/);
      }
      for (const host of ["10.0.0.1", "192.168.1.1", "172.16.0.1", "[fd12::1]"]) {
        await assertRefused(app, `http://${host}/`, /--allow-private-media/);
      }
    }),
);

refusalTest(
  "media at private addresses are fetched with allowPrivateMedia",
  { settings: { ...OPEN, allowPrivateMedia: true } },
  async (app) => {
    const image = discFile();
    await withServer((_, response) => response.end(image), (base) => assertServed(app, base));
  },
);

refusalTest(
  "nothing is fetched from metadata addresses, not even after a redirect",
  { settings: { allowPrivateMedia: true } },
  (app) =>
    withServer((request, response) => {
      const [, target = ""] = /to=(.*)/.exec(request.url!) ?? [];
      response.writeHead(302, { location: decodeURIComponent(target) }).end();
    }, async (base) => {
      const to = (target: string) => `${base}/?to=${encodeURIComponent(target)}`;
      const metadata = "http://169.254.169.254/latest/meta-data";
      await assertRefused(app, metadata, /never fetched from/);
      await assertRefused(app, "http://[fd00:ec2::254]/", /never fetched from/);
      await assertRefused(app, to(metadata), /never fetched from/);
      await assertRefused(app, to(to(metadata)), /never fetched from/);
      await assertRefused(app, to("file:///etc/passwd"), /scheme file:/);
      await assertRefused(app, to(`${base}/loop`), /redirect|not a URL|status/);
    }),
);

refusalTest(
  "media that are too large or too slow are given up",
  { mediaLimits: { maxBytes: 100_000, maxTotalMs: 1000 } },
  (app) =>
    withServer((request, response) => {
      if (request.url === "/declared") {
        response.writeHead(200, { "content-length": 100_001 });
        response.write("begins");
      } else if (request.url === "/endless") {
        const write = () => {
          while (!response.destroyed && response.write(new Uint8Array(8192)));
        };
        response.on("drain", write);
        write();
      } else if (request.url === "/slow") response.write("begins");
    }, async (base) => {
      await assertRefused(app, `${base}/declared`, /more than the 0 MiB/);
      await assertRefused(app, `${base}/endless`, /more than the 0 MiB/);
      await assertRefused(app, `${base}/slow`, /took more than 1 s/);
      await assertRefused(app, `${base}/silent`, /took more than 1 s/);
    }),
);

refusalTest(
  "100 MiB and 30 s are the default limits",
  {},
  (app) =>
    withServer((request, response) => {
      response.writeHead(200, {
        "content-length": 100 * 2 ** 20 + (request.url === "/over" ? 1 : 0),
      });
      response.write("begins");
      setTimeout(() => response.destroy());
    }, async (base) => {
      await assertRefused(app, `${base}/over`, /more than the 100 MiB that are allowed/);
      await assertRefused(app, base, /the connection ended before its last byte/);
      assert.equal(MEDIA_LIMITS.maxTotalMs, 30_000);
    }),
);
