import { createInterface } from "node:readline";

// drive connects a client, lists its tools, makes the calls that come on standard input,
// and prints what it saw.
export async function drive(client, transport) {
  await client.connect(transport);
  const seen = {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    tools: (await client.listTools()).tools,
    calls: [],
  };
  await client.ping();
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === "") continue;
    try {
      seen.calls.push({ result: await client.callTool(JSON.parse(line)) });
    } catch (err) {
      seen.calls.push({ error: { code: err.code ?? null, message: String(err.message) } });
    }
  }
  await client.close();
  console.log(JSON.stringify(seen));
}
