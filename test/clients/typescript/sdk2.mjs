// The same with the second-generation official TypeScript client, which opens with the
// newest protocol version and falls back.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { drive } from "./drive.mjs";

const client = new Client({ name: "world-test-sdk2", version: "1.0.0" });
const transport = new StreamableHTTPClientTransport(new URL(process.env.WORLD_URL), {
  requestInit: { headers: { Authorization: `Bearer ${process.env.WORLD_TOKEN}` } },
});
await drive(client, transport);
