package ailang

import (
	"os/exec"
	"runtime"
	"sync"
)

// starter starts an engine's processes from one thread that lives as long as the engine:
// the signal at a parent's death is sent when the thread ends that started the child, and
// threads of the Go runtime may end early. It owns which walls this system grants.
type starter struct {
	once sync.Once
	shut sync.Once
	work chan func()
	done chan struct{}

	walls walls
}

func newStarter() *starter { return &starter{work: make(chan func()), done: make(chan struct{})} }

// start starts what command makes; it may have to be made anew for a second attempt.
func (s *starter) start(command func() *exec.Cmd) (*exec.Cmd, error) {
	s.once.Do(func() { go s.loop() })
	type started struct {
		cmd *exec.Cmd
		err error
	}
	result := make(chan started, 1)
	select {
	case s.work <- func() {
		cmd, err := s.walls.start(command)
		result <- started{cmd, err}
	}:
		r := <-result
		return r.cmd, r.err
	case <-s.done:
		return nil, errClosed
	}
}

func (s *starter) loop() {
	runtime.LockOSThread() // never unlocked: the thread ends with the loop
	privilegesEnd()
	keepDescriptors()
	for {
		select {
		case f := <-s.work:
			f()
		case <-s.done:
			return
		}
	}
}

// unconfined says why processes get no namespace of their own, or nil. Something must have
// been started.
func (s *starter) unconfined() error { return s.walls.unconfined() }

// networked says why processes can reach the network, or nil. Something must have been
// started.
func (s *starter) networked() error { return s.walls.networked() }

// stop ends the thread. All children must have ended.
func (s *starter) stop() { s.shut.Do(func() { close(s.done) }) }
