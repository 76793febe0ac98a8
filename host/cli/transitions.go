package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"ailang.dev/world/host/registry"
	"ailang.dev/world/host/world"
	"ailang.dev/world/packs"
)

func (a *app) transitionsCommand() *cobra.Command {
	return group("transitions", "Publish, list, check and remove what can be called", `A transition is a pure function that plans effects. A manifest, a JSON array, names them
with their sources; publishing merges it by id into the store's registry.`,
		a.transitionsPublishCommand(), a.transitionsListCommand(), a.transitionsCheckCommand(), a.transitionsRemoveCommand())
}

func manifestFlag(c *cobra.Command, file *string) {
	c.Flags().StringVar(file, "manifest", "", "the manifest's `FILE`; sources are looked for beside it")
}

// readManifest reads --manifest and the sources it names, which cannot lie outside its
// folder.
func (a *app) readManifest(cmd *cobra.Command, file string) (registry.Manifest, error) {
	if file == "" {
		return registry.Manifest{}, usage(cmd, "--manifest FILE is needed")
	}
	path := a.path(file)
	dir, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return registry.Manifest{}, failf("cannot read the manifest %s: %v", path, bareIO(err))
	}
	defer dir.Close()
	return registry.ReadManifest(dir.FS(), filepath.Base(path))
}

// manifestOrPack is what --manifest or --pack names, whichever is given.
func (a *app) manifestOrPack(cmd *cobra.Command, file, pack string) (registry.Manifest, error) {
	if pack == "" {
		return a.readManifest(cmd, file)
	}
	if file != "" {
		return registry.Manifest{}, usage(cmd, "--manifest and --pack cannot both be given")
	}
	p, err := packs.Load(pack)
	if err != nil {
		return registry.Manifest{}, usage(cmd, "--pack: %s", world.Message(err))
	}
	return registry.Manifest{Text: p.Manifest, Files: p.Files}, nil
}

// manifestWish is a manifest as it is shown before it is published.
func manifestWish(m registry.Manifest) string {
	var items []struct {
		ID              string       `json:"id"`
		Access          world.Need   `json:"access"`
		DeclaredEffects []world.Need `json:"declaredEffects"`
	}
	if err := json.Unmarshal(m.Text, &items); err != nil {
		return "" // the registry refuses it with better words
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d transition%s to publish:\n", len(items), plural(len(items)))
	for _, it := range items {
		fmt.Fprintf(&b, "  %s, seen with %s, may plan %s\n", printable(it.ID, false), needText(it.Access), needsText(it.DeclaredEffects))
	}
	return b.String()
}

func needText(n world.Need) string {
	text := fmt.Sprintf("%s=%s:%d", printable(n.Effect, false), printable(n.Scope, false), n.Cost)
	if n.Approval {
		text += " (each approved by a person)"
	}
	return text
}

func needsText(needs []world.Need) string {
	if len(needs) == 0 {
		return "nothing"
	}
	parts := make([]string, len(needs))
	for i, n := range needs {
		parts[i] = needText(n)
	}
	return strings.Join(parts, " ")
}

// showPublished prints what a publication or removal did; the summary is the last line.
func (a *app) showPublished(p registry.Published, asJSON bool) error {
	if asJSON {
		return writeJSON(a.stdout, p)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", printable(w, false))
	}
	for _, list := range []struct {
		word string
		ids  []string
	}{{"added", p.Added}, {"updated", p.Updated}, {"removed", p.Removed}} {
		if len(list.ids) > 0 {
			fmt.Fprintf(a.stdout, "%s %s\n", list.word, strings.Join(list.ids, " "))
		}
	}
	fmt.Fprintln(a.stdout, p.Summary())
	return nil
}

func (a *app) transitionsPublishCommand() *cobra.Command {
	var db, file, pack, bin string
	var yes, asJSON bool
	c := &cobra.Command{
		Use:   "publish --db FILE (--manifest FILE | --pack NAME) [--ailang-bin BINARY] [--yes]",
		Short: "Publish the transitions of a manifest, or of a pack that ships",
		Long: `Checks every source under its engine, stores it, and moves the registry. Transitions that
the manifest does not name stay. A manifest that changes nothing writes nothing. What is
published is shown first, and asked about on the terminal; without a terminal it needs
--yes. Works before genesis, and while the daemon runs: sessions see it at once.

.ail sources are checked by, and pinned to, the daemon's AILANG binary, or, while no daemon
runs, the one that --ailang-bin names.

The packs that ship are ` + strings.Join(packs.Names(), ", ") + `.`,
		Example: `  ailang-worldd transitions publish --db world.db --manifest transitions/manifest.json
  ailang-worldd transitions publish --db world.db --pack magisterium`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			m, err := a.manifestOrPack(cmd, file, pack)
			if err != nil {
				return err
			}
			if err := checkStore(path, false); err != nil {
				return err
			}
			if err := a.confirm(cmd.Context(), yes, manifestWish(m), "Publish?"); err != nil {
				return err
			}
			return a.move(cmd.Context(), path, bin, asJSON, func(ctx context.Context, o publisher) (registry.Published, error) {
				return o.Publish(ctx, m)
			})
		},
	}
	dbFlag(c, &db)
	manifestFlag(c, &file)
	c.Flags().StringVar(&pack, "pack", "", "publish the pack `NAME` that ships")
	ailangFlag(c, &bin)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	jsonFlag(c, &asJSON)
	return c
}

// publisher is what moves a registry.
type publisher interface {
	Publish(ctx context.Context, m registry.Manifest) (registry.Published, error)
	Remove(ctx context.Context, ids []string) (registry.Published, error)
}

// move opens a store, moves its registry and tells of it.
func (a *app) move(ctx context.Context, db, ailangBin string, asJSON bool, f func(context.Context, publisher) (registry.Published, error)) error {
	ops, err := a.openOpsWith(ctx, db, false, ailangBin)
	if err != nil {
		return err
	}
	defer ops.Close()
	defer a.progress("checking the sources")()
	p, err := f(ctx, ops)
	if err != nil {
		return err
	}
	return a.showPublished(p, asJSON)
}

func (a *app) transitionsRemoveCommand() *cobra.Command {
	var db string
	var asJSON bool
	c := &cobra.Command{
		Use:   "remove --db FILE ID…",
		Short: "Take transitions out of the registry",
		Long: `Takes transitions out of the registry: no session sees them any more. Their sources and
what they did stay in the log. If one id is not there, none is removed.`,
		Example: `  ailang-worldd transitions remove --db world.db tools.echo`,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, ids []string) error {
			path, err := a.dbPath(cmd, db)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				return argsError(cmd, "the ids of the transitions to remove")
			}
			return a.move(cmd.Context(), path, "", asJSON, func(ctx context.Context, o publisher) (registry.Published, error) {
				return o.Remove(ctx, ids)
			})
		},
	}
	dbFlag(c, &db)
	jsonFlag(c, &asJSON)
	return c
}
