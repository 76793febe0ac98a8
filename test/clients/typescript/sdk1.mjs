// A stock client of the first-generation official TypeScript SDK: connects, lists, and
// makes the calls it is given on standard input, one JSON {name, arguments} a line. Prints
// one JSON document of all it saw. Results are validated by the SDK against outputSchema.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { drive } from "./drive.mjs";

const client = new Client({ name: "world-test-sdk1", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(process.env.WORLD_URL), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.WORLD_TOKEN}` } },
});
await drive(client, transport);
