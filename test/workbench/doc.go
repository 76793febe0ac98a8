// Package workbench holds the test of the workbench in a real browser: every page, light,
// dark and narrow, by keyboard and by axe-core, over a world that an agent worked in.
package workbench
