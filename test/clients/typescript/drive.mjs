import { createInterface } from "node:readline";

// drive connects a client, lists its tools, makes the calls that come on standard input,
// and prints what it saw. An argument "${TOOL.MEMBER}" stands for a member of that tool's last
// answer that was ok.
export async function drive(client, transport) {
  await client.connect(transport);
  const seen = {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    tools: (await client.listTools()).tools,
    calls: [],
  };
  const last = {};
  const filled = (args) =>
    Object.fromEntries(
      Object.entries(args ?? {}).map(([k, v]) => {
        const m = typeof v === "string" ? v.match(/^\$\{([\w-]+)\.(\w+)\}$/) : null;
        return [k, m ? last[m[1]]?.[m[2]] : v];
      }),
    );
  await client.ping();
  for await (const line of createInterface({ input: process.stdin })) {
    if (line.trim() === "") continue;
    try {
      const { name, arguments: args } = JSON.parse(line);
      const result = await client.callTool({ name, arguments: filled(args) });
      seen.calls.push({ result });
      if (result.structuredContent?.ok === true) last[name] = result.structuredContent;
    } catch (err) {
      seen.calls.push({ error: { code: err.code ?? null, message: String(err.message) } });
    }
  }
  await client.close();
  console.log(JSON.stringify(seen));
}
