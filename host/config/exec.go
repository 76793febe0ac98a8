package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"ailang.dev/world/host/handlers/exec"
)

// execSection declares the commands that agents may run.
type execSection struct {
	Profiles map[string]profile `yaml:"profiles"`
}

type profile struct {
	Description string            `yaml:"description"`
	Argv        []string          `yaml:"argv"`
	Args        args              `yaml:"args"`
	ReadOnly    []string          `yaml:"read_only"`
	Env         map[string]string `yaml:"env"`
	Limits      limits            `yaml:"limits"`
	Job         bool              `yaml:"job"`
}

type args struct {
	Max      whole  `yaml:"max"`
	MaxBytes whole  `yaml:"max_bytes"`
	Pattern  string `yaml:"pattern"`
	Flags    bool   `yaml:"flags"`
}

type limits struct {
	Timeout   string `yaml:"timeout"`
	CPU       string `yaml:"cpu"`
	Memory    string `yaml:"memory"`
	Processes whole  `yaml:"processes"`
	FileSize  string `yaml:"file_size"`
	OpenFiles whole  `yaml:"open_files"`
	Output    string `yaml:"output"`
	Keep      string `yaml:"keep"`
	Temp      string `yaml:"temp"`
}

func (s execSection) build(src *source) ([]exec.Profile, error) {
	var all []exec.Profile
	for _, name := range slices.Sorted(maps.Keys(s.Profiles)) {
		p, path := s.Profiles[name], []string{"exec", "profiles", name}
		built := exec.Profile{
			Name: name, Description: p.Description, Argv: p.Argv,
			Args:     exec.Args{Max: int(p.Args.Max), MaxBytes: int(p.Args.MaxBytes), Pattern: p.Args.Pattern, Flags: p.Args.Flags},
			ReadOnly: p.ReadOnly, Env: p.Env, Job: p.Job,
		}
		var err error
		if built.Limits, err = p.Limits.build(src, append(path, "limits")); err != nil {
			return nil, err
		}
		if err := built.Check(); err != nil {
			field := exec.Field(err)
			return nil, src.at(append(path, strings.Split(field, ".")...), "%s", strings.TrimPrefix(err.Error(), field+" "))
		}
		all = append(all, built)
	}
	return all, nil
}

func (l limits) build(src *source, path []string) (exec.Limits, error) {
	done := exec.Limits{Processes: int(l.Processes), OpenFiles: int(l.OpenFiles)}
	for _, s := range []struct {
		key, text string
		to        *int64
	}{{"memory", l.Memory, &done.Memory}, {"file_size", l.FileSize, &done.FileSize}, {"output", l.Output, &done.Output}, {"temp", l.Temp, &done.Temp}} {
		if s.text == "" {
			continue
		}
		var err error
		if *s.to, err = size(s.text); err != nil {
			return done, src.at(append(path, s.key), "%v", err)
		}
	}
	if l.Keep != "" {
		n, err := size(l.Keep)
		if err != nil {
			return done, src.at(append(path, "keep"), "%v", err)
		}
		done.Keep = int(min(n, exec.MaxKeep+1))
	}
	for _, s := range []struct {
		key, text string
		to        *time.Duration
	}{{"timeout", l.Timeout, &done.Timeout}, {"cpu", l.CPU, &done.CPU}} {
		if s.text == "" {
			continue
		}
		var err error
		if *s.to, err = duration(s.text); err != nil {
			return done, src.at(append(path, s.key), "%v", err)
		}
	}
	return done, nil
}
