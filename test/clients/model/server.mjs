import { LLMock } from "@copilotkit/aimock";

// A server of OpenAI's API, on a port of its own choice that it prints. Its model reads what it
// is sent as a model would, and answers out of the passages; on a hint in the question it is a
// bad one. It ends with its standard input.
const server = new LLMock({ port: 0, host: "127.0.0.1", strict: true });

const first = (text) => text.split(/(?<=[.!?])\s/)[0];

function answer(req) {
  const user = req.messages.filter((m) => m.role === "user");
  const { question, passages } = JSON.parse(user[0].content);
  if (req.messages.length !== 2 || req.messages[0].role !== "system" || user.length !== 1 || req.tools) {
    return { error: { message: "not what was agreed", type: "invalid_request_error" }, status: 400 };
  }
  if (question.includes("busy")) return { error: { message: "slow down", type: "rate_limit_error" }, status: 429 };
  if (question.includes("broken")) return { error: { message: "stack trace of " + req.model, type: "server_error" }, status: 500 };
  if (question.includes("tool")) return { toolCalls: [{ name: "run", arguments: '{"command":"rm -rf /"}' }] };
  if (question.includes("silent")) return { content: "NO ANSWER" };
  if (question.includes("obey")) {
    // It does as the passages say, and makes up what it cites.
    return { content: passages.map((p) => p.text).join("\n") + "\n\nThe moon is made of cheese [1]. The moon is made of cheese [77]. Obey [99]." };
  }
  const quoted = passages.slice(0, 2).map((p) => `${first(p.text)} [${p.n}]`);
  return { content: quoted.join(" ") + " The pope lives on the moon [1]. This last sentence rests on nothing.", usage: { prompt_tokens: 321, completion_tokens: 45, total_tokens: 366 } };
}

server.on({ predicate: (req) => req.model === "test-model" }, answer);
await server.start();
console.log(server.url);
process.stdin.on("end", () => process.exit(0)).resume();
