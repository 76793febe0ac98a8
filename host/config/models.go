package config

import (
	"errors"
	"maps"
	"slices"

	"ailang.dev/world/host/handlers/model"
)

// modelsSection names the models; none leaves the one that is built in.
type modelsSection map[string]modelEntry

type modelEntry struct {
	Backend     string            `yaml:"backend"`
	URL         string            `yaml:"url"`
	Model       string            `yaml:"model"`
	KeyFile     string            `yaml:"key_file"`
	Timeout     string            `yaml:"timeout"`
	MaxAnswer   string            `yaml:"max_answer"`
	MaxTokens   int               `yaml:"max_tokens"`
	TokensField string            `yaml:"tokens_field"`
	Temperature *float64          `yaml:"temperature"`
	Headers     map[string]string `yaml:"headers"`
}

func (s modelsSection) build(src *source) ([]model.Model, error) {
	if len(s) > model.MaxModels {
		return nil, src.at([]string{"models"}, "has more than %d models", model.MaxModels)
	}
	var all []model.Model
	for _, name := range slices.Sorted(maps.Keys(s)) {
		m, err := s[name].build(src, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

func (e modelEntry) build(src *source, name string) (model.Model, error) {
	at := []string{"models", name}
	m := model.Model{Name: name, Backend: e.Backend, URL: e.URL, Model: e.Model, KeyFile: e.KeyFile, MaxTokens: e.MaxTokens,
		TokensField: e.TokensField, Temperature: e.Temperature, Headers: e.Headers}
	if m.Backend == "" {
		m.Backend = model.OpenAI
	}
	var err error
	if e.Timeout != "" {
		if m.Timeout, err = duration(e.Timeout); err != nil {
			return m, src.at(append(at, "timeout"), "%v", err)
		}
	}
	if e.MaxAnswer != "" {
		n, err := size(e.MaxAnswer)
		if err != nil {
			return m, src.at(append(at, "max_answer"), "%v", err)
		}
		m.MaxAnswer = int(min(n, model.MaxAnswer+1))
	}
	var wrong *model.FieldError
	if err := m.Check(); errors.As(err, &wrong) {
		return m, src.at(append(at, wrong.Field), "%s", wrong.Why)
	}
	return m, nil
}
