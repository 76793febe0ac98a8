package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"

	mark "github.com/mark3labs/mcp-go/mcp"
	markserver "github.com/mark3labs/mcp-go/server"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// rivals are MCP servers over Streamable HTTP, stateless, with one tool that does what
// tools.echo does and nothing stored. Each runs in a process of its own.
var rivals = map[string]func() http.Handler{
	"sdk-raw":   sdkRaw,
	"sdk-typed": sdkTyped,
	"mcp-go":    mcpGo,
}

// rivalTool is the echo tool's name on every rival.
const rivalTool = "echo"

type echoIn struct {
	Text string `json:"text"`
}

type echoOut struct {
	Echo echoIn `json:"echo"`
}

// rivalVerb serves a rival until ctx or stdin ends.
func rivalVerb(ctx context.Context, _ string, args []string, stdout, _ io.Writer) error {
	if len(args) != 1 || rivals[args[0]] == nil {
		return fmt.Errorf("rival takes one of %v", slices.Sorted(maps.Keys(rivals)))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(mcpPath, rivals[args[0]]())
	srv := &http.Server{Handler: mux}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, os.Stdin) // it ends with the program that started this one
		cancel()
	}()
	context.AfterFunc(ctx, func() { srv.Close() })
	fmt.Fprintf(stdout, "rival%shttp://%s\n", listening, l.Addr())
	if err := srv.Serve(l); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func sdkServer(add func(*sdk.Server)) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "rival", Version: "1"}, nil)
	add(s)
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
}

// sdkRaw gets its arguments as they came, and checks no schema.
func sdkRaw() http.Handler {
	return sdkServer(func(s *sdk.Server) {
		tool := &sdk.Tool{Name: rivalTool, Description: "Gives its arguments back.", InputSchema: json.RawMessage(`{"type":"object"}`)}
		s.AddTool(tool, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			out := slices.Concat([]byte(`{"echo":`), r.Params.Arguments, []byte(`}`))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(out)}}, StructuredContent: json.RawMessage(out)}, nil
		})
	})
}

// sdkTyped is how that module's documentation writes a tool.
func sdkTyped() http.Handler {
	return sdkServer(func(s *sdk.Server) {
		sdk.AddTool(s, &sdk.Tool{Name: rivalTool, Description: "Gives its arguments back."},
			func(_ context.Context, _ *sdk.CallToolRequest, in echoIn) (*sdk.CallToolResult, echoOut, error) {
				return nil, echoOut{Echo: in}, nil
			})
	})
}

func mcpGo() http.Handler {
	s := markserver.NewMCPServer("rival", "1", markserver.WithToolCapabilities(false))
	tool := mark.NewTool(rivalTool, mark.WithDescription("Gives its arguments back."), mark.WithString("text"))
	s.AddTool(tool, func(_ context.Context, r mark.CallToolRequest) (*mark.CallToolResult, error) {
		return mark.NewToolResultStructuredOnly(map[string]any{"echo": r.GetArguments()}), nil
	})
	return markserver.NewStreamableHTTPServer(s, markserver.WithStateLess(true))
}
