import assert from "node:assert/strict";
import { readChatCommand, readTypedPath } from "../../../src/cli/run/terminal.ts";

Deno.test("readChatCommand() distinguishes commands from messages", () => {
  assert.deepEqual(readChatCommand("/help"), { name: "help", rest: "" });
  assert.deepEqual(readChatCommand("/?"), { name: "help", rest: "" });
  assert.deepEqual(readChatCommand("/EXIT "), { name: "bye", rest: "" });
  assert.deepEqual(readChatCommand("/system Be brief.\nBe kind."), {
    name: "system",
    rest: "Be brief.\nBe kind.",
  });
  for (const message of ["hello", "", " /help", "/etc/passwd is what?", "1/2"]) {
    assert.equal(readChatCommand(message), undefined, message);
  }
  assert.match(
    String(readChatCommand("/sytem x")),
    /^There is no command \/sytem\. Did you mean \/system\?/,
  );
  assert.match(String(readChatCommand("/frobnicate")), /frobnicate\. \/help lists them\.$/);
});

Deno.test("readTypedPath() reads paths in the notation of shells and terminals", {
  ignore: Deno.build.os === "windows",
}, () => {
  const cases = [
    ["photo.jpg", "photo.jpg"],
    ["'my photo.jpg'", "my photo.jpg"],
    ['"my photo.jpg"', "my photo.jpg"],
    ["my\\ photo\\(1\\).jpg", "my photo(1).jpg"],
    ["~/photo.jpg", "/home/ada/photo.jpg"],
    ["~ada/photo.jpg", "~ada/photo.jpg"],
    ["it's.jpg", "it's.jpg"],
  ];
  for (const [typed = "", path] of cases) assert.equal(readTypedPath(typed, "/home/ada"), path);
});
