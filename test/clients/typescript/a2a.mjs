import { createInterface } from "node:readline";
import { JsonRpcTransport } from "@a2a-js/sdk/client";

// Makes the calls that come on standard input, a {"method","params","token"} a line, and
// prints what came of each.
const seen = [];
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === "") continue;
  const { method, params, token } = JSON.parse(line);
  const client = new JsonRpcTransport({
    endpoint: process.env.WORLD_URL,
    fetchImpl: (url, init) =>
      fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token ?? process.env.WORLD_TOKEN}` } }),
  });
  try {
    seen.push({ result: await client[method](params) });
  } catch (err) {
    seen.push({ error: { name: err.constructor.name, message: String(err.message), code: err.errorResponse?.error?.code ?? 0, data: err.errorResponse?.error?.data ?? {} } });
  }
}
console.log(JSON.stringify(seen));
