package worker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServe(t *testing.T) {
	var in, out bytes.Buffer
	in.Write(Request{Op: OpCheck, Source: echo}.frame())
	in.Write(Request{Op: OpRun, Source: echo, Input: []byte("{}")}.frame())
	if err := serve(&in, &out, words{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"", "{}"} {
		body, err := readFrame(&out)
		if err != nil {
			t.Fatal(err)
		}
		res, heap, err := parseResult(body)
		if err != nil || res.Status != OK || string(res.Out) != want || heap == 0 {
			t.Errorf("got %+v, heap %d, %v; want %q", res, heap, err, want)
		}
	}
	if out.Len() != 0 {
		t.Errorf("%d bytes more", out.Len())
	}
}

func TestServeRefusesBrokenFrames(t *testing.T) {
	whole := Request{Op: OpRun, Source: echo, Input: []byte("{}")}.frame()
	frame := func(body string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body
	}
	ref := string(echo.Ref.Digest())
	for name, tt := range map[string]struct {
		in   string
		want error
	}{
		"cut":          {string(whole[:len(whole)-1]), io.ErrUnexpectedEOF},
		"cut length":   {"\x00\x00", io.ErrUnexpectedEOF},
		"too long":     {"\xff\xff\xff\xff", errFrame},
		"empty":        {frame(""), errFrame},
		"no source":    {frame("\x01" + ref), errFrame},
		"short source": {frame("\x01" + ref + "\x00\x00\x00\x09abc"), errFrame},
		"unknown op":   {frame("\x07" + ref + "\x00\x00\x00\x00"), errFrame},
	} {
		t.Run(name, func(t *testing.T) {
			if err := serve(strings.NewReader(tt.in), io.Discard, words{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestResultFrames(t *testing.T) {
	for _, want := range []Result{
		{}, {Out: []byte("{}")}, {Status: Convention, Msg: "main.star:1:1: é"}, {Status: Execution, Cause: "c", Msg: "m"},
	} {
		body, err := readFrame(bytes.NewReader(want.frame(42)))
		if err != nil {
			t.Fatal(err)
		}
		got, heap, err := parseResult(body)
		if err != nil || heap != 42 {
			t.Fatal(heap, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Result{}), cmp.Comparer(bytes.Equal)); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	stopped := Result{Status: Stopped}.frame(0)[4:]
	for _, body := range [][]byte{nil, make([]byte, 8), make([]byte, 9), make([]byte, 13), stopped} {
		if _, _, err := parseResult(body); !errors.Is(err, errFrame) {
			t.Errorf("%x: %v", body, err)
		}
	}
}
