package workbench

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"time"

	"ailang.dev/world/host/approvals"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/world"
)

//go:embed assets
var assets embed.FS

var (
	styleSheet = asset("style.css")
	icon       = asset("icon.svg")

	stylePath = "/workbench/style-" + short(hashref.Sum(styleSheet)) + ".css"
	iconPath  = "/workbench/icon-" + short(hashref.Sum(icon)) + ".svg"
)

func asset(name string) []byte {
	b, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return b
}

// names are the pages' templates; each is a file beside the common layout.
var names = []string{"home", "found", "episodes", "episode", "transitions", "approvals", "calls", "call", "refusal"}

var templates = func() map[string]*template.Template {
	layout := template.Must(template.New("layout.html").Funcs(functions).ParseFS(assets, "assets/layout.html", "assets/parts.html"))
	all := map[string]*template.Template{}
	for _, name := range names {
		all[name] = template.Must(template.Must(layout.Clone()).ParseFS(assets, "assets/"+name+".html"))
	}
	return all
}()

// functions are what templates call.
var functions = template.FuncMap{
	"short":       short,
	"cut":         cut,
	"line":        func(s string) string { return cut(s, MaxField) },
	"moment":      moment,
	"entryPath":   entryPath,
	"episodePath": episodePath,
	"worldPath":   worldPath,
	"callPath":    callPath,
	"findPath":    findPath,
	"wholePath":   wholePath,
	"objectPath":  func(ref world.Ref) string { return objectPath(ref, true) },
	"plural":      plural,
	"plural64":    func(n int64, what string) string { return plural(int(n), what) },
	"zero":        func(t time.Time) bool { return t.IsZero() },
	"needs":       func(n world.Need) string { return fmt.Sprintf("%s=%s, cost %d", n.Effect, n.Scope, n.Cost) },
	"plainly":     plainly,
	"pending":     func(s approvals.State) bool { return s == approvals.Pending },
}

// menu is the way to every page.
var menu = []struct{ Nav, Title, Href string }{
	{"timeline", "Timeline", "/workbench"},
	{"episodes", "Episodes", "/workbench/episodes"},
	{"transitions", "Transitions", "/workbench/transitions"},
	{"approvals", "Approvals", "/workbench/approvals"},
	{"calls", "Open calls", "/workbench/calls"},
}

// render makes a page's HTML.
func render(b *bytes.Buffer, pg *page) error {
	t := templates[pg.template]
	if t == nil {
		return fmt.Errorf("no template %q", pg.template)
	}
	return t.ExecuteTemplate(b, "layout.html", map[string]any{
		"Title": pg.title, "Nav": pg.nav, "Menu": menu, "Style": stylePath, "Icon": iconPath, "Version": world.Version, "Note": pg.note, "D": pg.data,
	})
}
