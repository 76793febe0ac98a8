package sqlite

// rebuild makes indexes that are missing, before anything is served.
func (d *database) rebuild(logf func(string, ...any)) error {
	have, err := d.names()
	if err != nil {
		return err
	}
	for _, m := range indexLine.FindAllStringSubmatch(schema, -1) {
		if have[m[1]] {
			continue
		}
		logf("store %s: the index %s is missing and is built anew", d.path, m[1])
		if err := d.writer.do(m[0], nil); err != nil {
			return err
		}
	}
	return nil
}
