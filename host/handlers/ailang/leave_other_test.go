//go:build !linux

package ailang

import "os"

func leave(code int) { os.Exit(code) }
