package daemon

import (
	"net/http"
	"slices"

	"ailang.dev/world/host/authority"
	"ailang.dev/world/host/hashref"
	"ailang.dev/world/host/surface"
	"ailang.dev/world/host/tasks"
	"ailang.dev/world/host/world"
)

// metadataPath is where RFC 9728 has the metadata of a protected resource.
const metadataPath = "/.well-known/oauth-protected-resource"

// admitUsers gives the core's users their plans and issuers.
func (d *Daemon) admitUsers() error {
	u, core := d.core.Users, d.core.Config
	if u.Plans = d.cfg.Plans; u.Plans == nil {
		u.Plans = authority.DefaultPlans()
	}
	u.Issuers = nil
	for _, cfg := range d.cfg.Issuers {
		i, err := authority.NewIssuer(cfg, core.Now, core.Logf)
		if err != nil {
			return world.Errorf(world.KindBadRequest, "daemon.New", "issuer: %v", err)
		}
		u.Issuers = append(u.Issuers, i)
	}
	return nil
}

// metadataHint tells a client that is not known where to get known; "" where no issuer is
// configured.
func (d *Daemon) metadataHint(base string) string {
	if len(d.core.Users.Issuers) == 0 {
		return ""
	}
	return `resource_metadata="` + base + metadataPath + `"`
}

// challenge is the WWW-Authenticate of /mcp/.
func (d *Daemon) challenge(base string) string {
	if hint := d.metadataHint(base); hint != "" {
		return "Bearer " + hint
	}
	return ""
}

func (d *Daemon) mountTasks(mux *http.ServeMux, base string, limits *authority.Limiter, watched calls) {
	core := d.core
	open := slices.DeleteFunc(core.Users.Plans.Names(), func(name string) bool { return !core.Users.Plans[name].Tasks })
	d.users = tasks.New(tasks.Config{Open: open,
		Users: doorkeeper{core.Users, core.Watch, world.SurfaceTasks}, Gate: func(plan string) bool { return core.Users.Plans[plan].Tasks }, Limits: limits,
		Skills: core.Registry, Calls: watched, Tasks: core.Store,
		Now: core.Config.Now, Logf: core.Config.Logf, Challenge: d.metadataHint(base),
	})
	mux.Handle(tasks.Path, d.users)
	if len(core.Users.Issuers) > 0 {
		mux.Handle("GET "+metadataPath, metadata(base, core.Users.Issuers))
	}
}

// metadata is the metadata of the protected resource that this daemon is (RFC 9728), for
// pages of any origin too.
func metadata(base string, issuers []*authority.Issuer) http.Handler {
	servers := make([]string, len(issuers))
	for i, is := range issuers {
		servers[i] = is.URL()
	}
	body := hashref.MustMarshal(map[string]any{
		"resource": base, "authorization_servers": servers, "bearer_methods_supported": []string{"header"},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		surface.JSON(http.StatusOK, body).Write(w)
	})
}
