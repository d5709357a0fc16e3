/**
 * The tools that tests of clients hand to the demo model.
 *
 * @module
 */

/** What is asked. */
export const askWeather = { role: "user" as const, content: "What is the weather in Paris?" };

/** What the demo model makes of {@linkcode weatherOf}. */
export const WEATHER_ANSWER = "In Paris it is sunny and 21 degrees.";

/** A tool in OpenAI's form. */
interface Tool {
  readonly type: "function";
  readonly function: {
    readonly name: string;
    readonly description: string;
    readonly parameters: Record<string, unknown>;
  };
}

/** See {@linkcode Tool}. */
export const TOOLS: readonly Tool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Get the current weather in a city.",
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "The city" },
          unit: { type: "string", enum: ["celsius", "fahrenheit"] },
        },
        required: ["city"],
      },
    },
  },
  {
    type: "function",
    function: {
      name: "get_time",
      description: "Get the current time in a city.",
      parameters: {
        type: "object",
        properties: { city: { type: "string" } },
        required: ["city"],
      },
    },
  },
];

/** What the tool answers. */
export function weatherOf(_given: { city: string }): string {
  return '{"temperature": 21, "condition": "sunny"}';
}
