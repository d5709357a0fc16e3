import assert from "node:assert/strict";
import { classifyAddress } from "../../../src/media/fetch.ts";

const KINDS = {
  public: [
    "8.8.8.8",
    "172.15.255.255",
    "172.32.0.0",
    "192.167.1.1",
    "100.128.0.1",
    "223.255.255.255",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::808:808",
    "2002:808:808::1",
  ],
  local: [
    "127.0.0.1",
    "127.255.255.255",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "100.64.0.1",
    "198.19.0.1",
    "::1",
    "::",
    "fd12:3456::1",
    "fc00::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "::127.0.0.1",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::8.8.8.8",
    "2002:7f00:1::",
    "::ffff:0:10.0.0.1",
  ],
  forbidden: [
    "169.254.169.254",
    "168.63.129.16",
    "169.254.0.1",
    "100.100.100.200",
    "192.0.0.192",
    "224.0.0.1",
    "255.255.255.255",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "ff02::1",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "2002:a9fe:a9fe::",
    "::ffff:0:169.254.169.254",
    "2001::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "no address",
    "1.2.3",
  ],
} as const;

for (const [kind, addresses] of Object.entries(KINDS)) {
  Deno.test(`classifyAddress() recognizes ${kind} addresses`, () => {
    for (const address of addresses) assert.equal(classifyAddress(address), kind, address);
  });
}
