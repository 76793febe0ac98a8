// Package pgtest starts PostgreSQL servers of its own for tests: private clusters in temporary
// folders, on a loopback port that was free, with fsync on. Where the server's programs are
// not installed a test that needs one is skipped, and says so. It never touches a cluster that
// it did not make. Answers spec/23-postgres.md.
package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// startTimeout bounds the start, the stop and the making of a cluster, each.
const startTimeout = 60 * time.Second

// Superuser is the role that owns a cluster. Role is the one that tests connect as; it owns
// their databases, and is nothing more.
const (
	Superuser = "postgres"
	Role      = "world"
	Password  = "not-a-secret-but-looked-for"
)

// Cluster is one running server.
type Cluster struct {
	Folder string // its data
	Port   int
	bin    string
	cred   *syscall.Credential
	next   atomic.Int64
}

// Bin is the folder of the server's programs, of the newest version that is installed.
func Bin() (string, bool) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	more, _ := filepath.Glob("/usr/local/pgsql/bin/postgres")
	found = append(found, more...)
	if p, err := exec.LookPath("postgres"); err == nil {
		found = append(found, p)
	}
	if len(found) == 0 {
		return "", false
	}
	version := func(p string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p))))
		return n
	}
	best := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(best), true
}

// Missing is what is said where the programs are not there.
const Missing = "SKIP: PostgreSQL's server programs are not installed (Debian: apt-get install postgresql), so nothing here was tested"

// Start makes a cluster and starts it. Without the programs it is nil and no error.
func Start() (*Cluster, error) {
	bin, ok := Bin()
	if !ok {
		return nil, nil
	}
	c := &Cluster{bin: bin}
	if err := c.owner(); err != nil {
		return nil, err
	}
	if err := c.folder(); err != nil {
		return nil, err
	}
	if out, err := c.run("initdb", "-D", c.Folder, "-U", Superuser, "-A", "trust", "--data-checksums", "-E", "UTF8", "--locale=C"); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	hba := "local all all trust\nhost all postgres 127.0.0.1/32 trust\nhost replication postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	if err := os.WriteFile(filepath.Join(c.Folder, "pg_hba.conf"), []byte(hba), 0o600); err != nil {
		return nil, err
	}
	if err := c.boot(); err != nil {
		return nil, err
	}
	return c, c.Exec("postgres", fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", Role, Password))
}

// bootTries is how often another port is taken, where somebody else was faster.
const bootTries = 5

// boot takes a free port and starts the server on it.
func (c *Cluster) boot() (err error) {
	for range bootTries {
		if c.Port, err = freePort(); err != nil {
			return err
		}
		if err = c.Boot(); err == nil {
			return nil
		}
	}
	return err
}

// owner is whom the server runs as: it refuses to be root.
func (c *Cluster) owner() error {
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return fmt.Errorf("the server refuses to run as root, and there is no user postgres: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return err
	}
	c.cred = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return nil
}

func (c *Cluster) folder() (err error) {
	if c.Folder, err = os.MkdirTemp("", "world-pg-"); err != nil {
		return err
	}
	if c.cred != nil {
		return os.Chown(c.Folder, int(c.cred.Uid), int(c.cred.Gid))
	}
	return nil
}

// run runs one of the server's programs to its end.
func (c *Cluster) run(program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Dir = c.Folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.cred}
	cmd.WaitDelay = time.Second // the server keeps what it inherited open
	log, err := os.CreateTemp("", "world-pg-log-")
	if err != nil {
		return "", err
	}
	defer os.Remove(log.Name())
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	err = cmd.Run()
	out, _ := os.ReadFile(log.Name())
	return string(out), err
}

// Boot starts the server on its port.
func (c *Cluster) Boot() error {
	options := fmt.Sprintf("-c listen_addresses=127.0.0.1 -c port=%d -c unix_socket_directories=%s -c fsync=on -c max_connections=150"+
		" -c shared_buffers=16MB -c wal_level=replica -c max_wal_senders=8 -c wal_keep_size=64MB", c.Port, c.Folder)
	out, err := c.run("pg_ctl", "-D", c.Folder, "-l", filepath.Join(c.Folder, "server.log"), "-w", "-o", options, "start")
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(c.Folder, "server.log"))
		return fmt.Errorf("pg_ctl start: %w: %s%s", err, out, log)
	}
	return nil
}

// Halt stops the server: fast, or at once without saving anything ("immediate").
func (c *Cluster) Halt(mode string) error {
	out, err := c.run("pg_ctl", "-D", c.Folder, "-w", "-m", mode, "stop")
	if err != nil {
		return fmt.Errorf("pg_ctl stop: %w: %s", err, out)
	}
	return nil
}

// Stop stops the server and removes its folder.
func (c *Cluster) Stop() error {
	if c == nil {
		return nil
	}
	err := c.Halt("immediate")
	if rerr := os.RemoveAll(c.Folder); err == nil {
		err = rerr
	}
	return err
}

// Remove is Stop of a cluster that may have been stopped already.
func (c *Cluster) Remove() error {
	_ = c.Halt("immediate")
	return os.RemoveAll(c.Folder)
}

// Replica makes a streaming copy of the cluster and starts it. With sync the primary
// acknowledges nothing that the copy has not.
func (c *Cluster) Replica(sync bool) (*Cluster, error) {
	r := &Cluster{bin: c.bin, cred: c.cred}
	if err := r.folder(); err != nil {
		return nil, err
	}
	out, err := r.run("pg_basebackup", "-D", r.Folder, "-R", "-X", "stream", "-c", "fast",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=copy", c.Port, Superuser))
	if err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := r.boot(); err != nil {
		return nil, err
	}
	if !sync {
		return r, nil
	}
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = 'copy'", "SELECT pg_reload_conf()"} {
		if err := c.Exec("postgres", sql); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Promote makes a replica a primary.
func (c *Cluster) Promote() error {
	out, err := c.run("pg_ctl", "-D", c.Folder, "-w", "promote")
	if err != nil {
		return fmt.Errorf("pg_ctl promote: %w: %s", err, out)
	}
	return nil
}

// AdminURL is a database as the superuser reaches it.
func (c *Cluster) AdminURL(database string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s", Superuser, c.Port, database)
}

// URL is a database as the role of the tests reaches it, by its password.
func (c *Cluster) URL(database string) string {
	return fmt.Sprintf("postgres://%s:%s@127.0.0.1:%d/%s", Role, Password, c.Port, database)
}

// Exec runs statements as the superuser.
func (c *Cluster) Exec(database string, statements ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.AdminURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// Database makes an empty database and gives its name. A nil cluster skips the test.
func (c *Cluster) Database(t testing.TB) string {
	t.Helper()
	if c == nil {
		t.Skip(Missing)
	}
	name := fmt.Sprintf("test_%d", c.next.Add(1))
	if err := c.Exec("postgres", fmt.Sprintf("CREATE DATABASE %s OWNER %s", name, Role)); err != nil {
		t.Fatal(err)
	}
	return name
}

// Main runs the tests of a package with one cluster, which use is given before; nil where the
// programs are missing. It gives the code to exit with.
func Main(m *testing.M, use func(*Cluster)) int {
	c, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	if c == nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(Missing))
	}
	use(c)
	code := m.Run()
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "pgtest:", err)
		return 1
	}
	return code
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// KillBackend kills one server process of a database whose application's name is like a
// pattern, as a crash would: the server ends all others and recovers. It returns when the
// server answers again.
func (c *Cluster) KillBackend(database, like string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, c.AdminURL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var pid int
	err = conn.QueryRow(ctx, "SELECT pid FROM pg_stat_activity WHERE datname = $1 AND application_name LIKE $2 LIMIT 1", database, like).Scan(&pid)
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err = c.Exec("postgres", "SELECT 1"); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond) // the server tells nobody that it is back
	}
	return err
}
